//! Names and attributes on the disk: how folders were last, for when the server is away, also when the mount begins then.
//!
//! What is known of a folder ([`super::names`]) is written a moment after it was learnt, sealed, beside the blocks. It is read only while the server is away, and
//! is then as good as what was known last in memory: old is better than nothing. Of a folder with more members than [`Disk`] seals at once (some 80,000) nothing is kept.
//!
//! `identity` is what a mount needs to begin while the server is away: the wrapped keys, as the server sent them, which the token opens, and sealed with what
//! is in them, who the server said it was. A token that was taken back goes on opening what is here until the server says so.

use super::disk::{Disk, Name};
use super::keys::Sealing;
use super::layouts::off;
use super::link::Link;
use super::names::Folder;
use super::voice::Voice;
use super::{DiskOptions, Layouts, Options, Remote, Shared, disk, pins};
use crate::wire::{self, ANSWER_BYTES_MAX, Hello, Keys, Value};
use bytes::{Bytes, BytesMut};
use holdfast_auth::Secret;
use holdfast_base::{Error, NodeId, NodeName, Result, Uid};
use holdfast_drive::{Entry, Tree};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at what was learnt.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// What `identity` is called.
const IDENTITY: &str = "identity";

/// A folder as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptFolder {
    /// Itself.
    pub(super) entry: Option<Entry>,
    /// Members that are known.
    pub(super) members: Vec<Entry>,
    /// Whether those are all.
    pub(super) whole: bool,
}

/// Who the server said it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// The keys beside it, as they are written.
    keys: Bytes,
    hello: Hello,
    /// The space as it was asked for.
    asked: Option<String>,
    has_locking: bool,
}

wire::record! {
    KeptFolder: 3 { entry, members, whole }
    Identity: 4 { keys, hello, asked, has_locking }
}

impl Remote {
    /// Keeps what is read on the disk from now on, and what is known of names; with the keys that [`Self::take_keys`] took.
    pub async fn keep_on_disk(&mut self, options: &DiskOptions) -> Result<()> {
        let sealing = self.sealing.clone().ok_or_else(|| Error::internal("this client has no keys to seal with"))?;
        let options = options.clone();
        let disk = Arc::new(off(move || Disk::open(&options, sealing)).await??);
        let shared = &self.shared;
        if let Some(keys) = &self.keys {
            let identity = Identity {
                keys: wire::encode(keys).into(),
                hello: shared.hello.clone(),
                asked: self.asked.clone(),
                has_locking: shared.has_locking,
            };
            if let Err(error) = write_identity(&disk, keys, &identity) {
                tracing::warn!(%error, "a mount that begins while the server is away will not find this cache");
            }
        }
        shared.pins.load(&disk);
        let layouts = Layouts::new(disk);
        if shared.layouts.set(layouts).is_err() {
            return Err(Error::internal("this client has a cache already"));
        }
        shared.names.keeps();
        if let Some(layouts) = shared.layouts.get()
            && !shared.link.is_away()
        {
            // Whoever needs it asks again.
            let _ = layouts.look_again(shared).await;
            // So that the root is known when the server is away.
            let _ = self.entry(self.root_node()).await;
        }
        self.tasks.push(tokio::spawn(keep(self.shared.clone())));
        self.tasks.push(tokio::spawn(pins::keep(self.shared.clone())));
        Ok(())
    }

    /// A space whose server is away, as it was kept in a cache below `folder`, in one whose name begins with `prefix`; and its random name. None if there is none
    /// that this token opens.
    pub fn away(options: Options, token: &Secret, (folder, prefix): (&Path, &str)) -> Result<Option<(Self, Uid)>> {
        let Ok(caches) = std::fs::read_dir(folder) else { return Ok(None) };
        for cache in caches.flatten() {
            if !cache.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) {
                continue;
            }
            let Ok(Some(bytes)) = disk::note(&cache.path(), IDENTITY) else { continue };
            let Ok((keys, sealing, identity)) = read_identity(&bytes, token) else { continue };
            if identity.asked != options.space {
                continue;
            }
            let voice = Arc::new(Voice::new());
            let link = Link::new(&options, token, voice.clone())?;
            link.is_away_from_the_start();
            let mut remote = Self::over((link, voice), (identity.hello, identity.has_locking), options);
            remote.sealing = Some(Arc::new(sealing));
            return Ok(Some((remote, keys.space_uid)));
        }
        Ok(None)
    }
}

fn write_identity(disk: &Disk, keys: &Keys, identity: &Identity) -> Result<()> {
    let sealed = disk.sealing().seal_kept(IDENTITY, &wire::encode(identity))?;
    let sealed = sealed.ok_or_else(|| Error::internal("it is too large"))?;
    disk.write_plain_note(IDENTITY, &[&wire::frame(keys)[..], &sealed].concat())
}

fn read_identity(bytes: &[u8], token: &Secret) -> Result<(Keys, Sealing, Identity)> {
    let mut buffer = BytesMut::from(bytes);
    let found = wire::split(&mut buffer, ANSWER_BYTES_MAX)?.ok_or_else(|| Error::damaged("it is cut short"))?;
    let keys: Keys = wire::message(&found)?;
    let sealing = Sealing::open(&keys, token)?;
    let identity: Identity = wire::message(&sealing.open_kept(IDENTITY, buffer.to_vec())?)?;
    if identity.keys != found {
        return Err(Error::damaged("it is not as it was written"));
    }
    Ok((keys, sealing, identity))
}

/// Writes down what was learnt, for ever.
async fn keep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(KEEP_EVERY).await;
        let theirs = shared.clone();
        let _ = off(move || theirs.keep_names()).await;
    }
}

impl Shared {
    /// Writes down what was learnt of folders since the last time. Waits for the disk.
    pub(super) fn keep_names(&self) {
        let Some(layouts) = self.layouts.get() else { return };
        for folder in self.names.take_learnt() {
            keep_folder(&layouts.disk, folder);
        }
    }

    /// Remembers a folder as it was kept, if it was.
    pub(super) async fn recall(&self, folder: NodeId) {
        let Some(layouts) = self.layouts.get() else { return };
        let name = Name::Folder(folder);
        if !layouts.disk.has(name) {
            return;
        }
        let disk = layouts.disk.clone();
        if let Ok(Some(kept)) = off(move || disk.find::<KeptFolder>(name)).await {
            self.names.recall(folder, &kept);
        }
    }
}

fn keep_folder(disk: &Disk, folder: Folder) {
    let name = Name::Folder(folder.node);
    let before = disk.find::<KeptFolder>(name);
    let kept = merge(folder, before.clone());
    if before.as_ref() != Some(&kept) && (kept.whole || !kept.members.is_empty()) {
        disk.keep(name, &kept, false);
    }
}

/// What was learnt, and of the rest what was known before.
fn merge(folder: Folder, before: Option<KeptFolder>) -> KeptFolder {
    let Folder { entry, mut members, whole, free, .. } = folder;
    let before = before.unwrap_or(KeptFolder { entry: None, members: Vec::new(), whole: false });
    if !whole {
        let names: HashSet<&str> =
            members.iter().map(|entry| entry.node.name.as_str()).chain(free.iter().map(NodeName::as_str)).collect();
        let nodes: HashSet<NodeId> = members.iter().map(|entry| entry.node.id).collect();
        let stays = |entry: &&Entry| !names.contains(entry.node.name.as_str()) && !nodes.contains(&entry.node.id);
        let more: Vec<Entry> = before.members.iter().filter(stays).cloned().collect();
        members.extend(more);
    }
    members.sort_by(|one, other| one.node.name.cmp(&other.node.name));
    KeptFolder { entry: entry.or(before.entry), members, whole: whole || before.whole }
}

/// Reads anything that may lie in a cache, for tests with bytes nobody meant.
pub(crate) fn read_anything(bytes: &[u8]) {
    let keys = |byte: u8| holdfast_seal::SpaceKey::from_bytes([byte; 32]);
    let sealing = Sealing::of(holdfast_seal::BlockKeys::derive(Uid([7; 16]), &keys(7)));
    assert!(sealing.open_kept("c-1", bytes.to_vec()).is_err(), "nobody has the key");
    assert!(sealing.open_block(holdfast_base::BlockId([7; 32]), bytes.to_vec().into()).is_err(), "nobody has the key");
    assert!(read_identity(bytes, &Secret::new("no token")).is_err());
    if let Ok(text) = std::str::from_utf8(bytes) {
        disk::read_name(text);
    }
    same::<KeptFolder>(bytes);
    same::<Identity>(bytes);
    same::<Vec<(NodeId, String)>>(bytes);
    // What was sealed opens to the same, under its name only.
    let short = &bytes[..bytes.len().min(4_096)];
    if let Ok(Some(sealed)) = sealing.seal_kept("c-1", short) {
        assert_eq!(sealing.open_kept("c-1", sealed.clone()).expect("it was sealed so"), short);
        assert!(sealing.open_kept("c-2", sealed).is_err(), "it has another name");
    }
}

fn same<T: Value + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(read) = wire::message::<T>(bytes) {
        assert_eq!(
            wire::message::<T>(&wire::encode(&read)).ok(),
            Some(read),
            "what was read is written as it was read"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_base::SpaceId;
    use holdfast_drive::{Node, NodeKind};

    fn entry(id: i64, name: &str) -> Entry {
        let node = Node {
            id: NodeId(id),
            space: SpaceId(1),
            parent: Some(NodeId(1)),
            name: name.into(),
            kind: NodeKind::File,
            content: None,
            size: 0,
            seq: 1,
            created_ms: 0,
            modified_ms: 0,
            has_properties: false,
        };
        Entry::new(node, None)
    }

    fn names(kept: &KeptFolder) -> Vec<&str> {
        kept.members.iter().map(|entry| entry.node.name.as_str()).collect()
    }

    #[test]
    fn what_is_known_of_a_folder_in_part_adds_to_what_was_known_and_all_of_it_takes_its_place() {
        let before = KeptFolder {
            entry: Some(entry(1, "")),
            members: vec![entry(2, "a"), entry(3, "b"), entry(4, "c")],
            whole: true,
        };
        let free = vec![NodeName::new("b").expect("a name")];
        let part = |whole| Folder {
            node: NodeId(1),
            entry: None,
            members: vec![entry(9, "c"), entry(5, "d"), entry(2, "a2")],
            whole,
            free: free.clone(),
        };
        let merged = merge(part(false), Some(before.clone()));
        // b is free, c is another node, and what was a is a2 now.
        assert_eq!(names(&merged), ["a2", "c", "d"]);
        assert_eq!(merged.members[1].node.id, NodeId(9));
        assert!(merged.whole && merged.entry.is_some());
        assert_eq!(names(&merge(part(true), Some(before))), ["a2", "c", "d"]);
        assert!(!merge(part(false), None).whole);
    }

    #[test]
    fn bytes_that_nobody_meant_are_refused() {
        for bytes in [&b""[..], b"c-7", b"\x83\xf6\x80\xf5", &[0xff; 300]] {
            read_anything(bytes);
        }
        read_anything(&wire::encode(&KeptFolder {
            entry: Some(entry(1, "")),
            members: vec![entry(2, "a")],
            whole: true,
        }));
    }
}
