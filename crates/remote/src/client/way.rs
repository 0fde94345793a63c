//! Asking for a node anew, with the way to it.

use super::Remote;
use crate::wire::Call;
use futures_util::future::join_all;
use holdfast_base::{NodeId, Result};
use holdfast_drive::Entry;

impl Remote {
    /// A node as the server has it, or as it was last.
    pub(super) async fn ask_entry(&self, node: NodeId) -> Result<Option<Entry>> {
        let names = &self.shared.names;
        let ask = async {
            let mark = names.mark();
            let found: Option<Entry> = self.ask(Call::Entry(node)).await?;
            if let Some(found) = &found {
                names.learn(mark, found);
            }
            Ok(found)
        };
        let before = || async move { self.entry_before(node).await.map(Some) };
        self.or_before(ask, before).await
    }

    /// The same, if it and the folders above it have the names by which it was found: another may have one of them by now, and none is the answer then. Whoever asked looks for
    /// its name again.
    pub(super) async fn ask_way(&self, node: NodeId) -> Result<Option<Entry>> {
        let names = &self.shared.names;
        let way = names.way_before(node);
        let asked = join_all(way.iter().map(|(node, _)| self.ask_entry(*node))).await;
        let mut found = None;
        for (asked, (of, before)) in asked.into_iter().zip(&way) {
            let now = asked?.filter(|now| before.as_ref().is_none_or(|before| is_where_it_was(now, before)));
            if now.is_none() {
                names.forget();
                return Ok(None);
            }
            if *of == node {
                found = now;
            }
        }
        Ok(found)
    }
}

/// Whether a node has the name that it had. Of a file of several, that is not known.
fn is_where_it_was(now: &Entry, before: &Entry) -> bool {
    before.bond.is_some() || (now.node.parent, &now.node.name) == (before.node.parent, &before.node.name)
}
