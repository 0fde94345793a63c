//! Who asks from another machine has leases of what it is answered about: see [`Leases`].

use super::EngineTree;
use holdfast_base::NodeId;
use holdfast_meta::leases::{Leases, Mark, Mount, Owed, Word};
use holdfast_meta::{Entry, NodeKind};
use std::sync::Arc;
use tokio::sync::Notify;

/// The leases of a mount on another machine.
#[derive(Debug)]
pub struct Believer {
    leases: Arc<Leases>,
    mount: Mount,
    voice: u64,
}

impl Believer {
    /// It says what it has heard of: [`Leases::hear`].
    pub fn hear(&self, word: Word) -> bool {
        self.leases.hear(self.mount, self.voice, word)
    }

    /// It believes nothing any more: [`Leases::leave`].
    pub fn leave(&self, number: u64) {
        self.leases.leave(self.mount, number);
    }

    /// Whether it is asked for its word about whatever it was answered about.
    pub fn is_there(&self) -> bool {
        self.leases.has(self.mount)
    }

    /// Rings when it is to say what it has heard of.
    pub fn bell(&self) -> Arc<Notify> {
        self.leases.bell(self.mount)
    }

    /// What others wait for: [`Leases::owed`].
    pub fn owed(&self, after: u64) -> Option<Owed> {
        self.leases.owed(self.mount, after)
    }
}

/// A question that is being answered; none where nobody believes the answer for long.
pub(super) struct Asking<'t>(Option<(&'t Arc<Leases>, Mount, Mark)>);

impl Asking<'_> {
    /// It is about to be answered with these, and what was told of these folders besides. Waits until who asked has heard of what changed meanwhile.
    pub(super) async fn tells<'e>(
        self,
        entries: impl IntoIterator<Item = &'e Entry>,
        folders: impl IntoIterator<Item = NodeId>,
    ) {
        let Some((leases, mount, mark)) = self.0 else { return };
        let of = |entry: &Entry| {
            // What is told of a folder changes with its members, too.
            let own = (entry.node.kind == NodeKind::Folder).then_some(entry.node.id);
            entry.node.parent.into_iter().chain(own)
        };
        let told: Vec<NodeId> = entries.into_iter().flat_map(of).chain(folders).collect();
        let wait = leases.grant(mount, told, mark);
        if let Some(wait) = wait {
            wait.over().await;
        }
    }
}

impl EngineTree {
    pub(super) fn leases(&self) -> Option<(&Arc<Leases>, Mount)> {
        let leases = self.engine.shared.catalogue.leases().filter(|_| self.from.number != 0)?;
        let mount =
            Mount { space: self.entered.lock().0.space.id, account: self.who.account, number: self.from.number };
        Some((leases, mount))
    }

    /// To be called before what is answered is read.
    pub(super) fn asking(&self) -> Asking<'_> {
        Asking(self.leases().map(|(leases, mount)| (leases, mount, leases.mark(mount, self.from.voice))))
    }

    pub(super) fn believer(&self) -> Option<Believer> {
        let (leases, mount) = self.leases()?;
        Some(Believer { leases: leases.clone(), mount, voice: self.from.voice })
    }
}
