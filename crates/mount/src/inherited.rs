//! What is made in a folder with set-group-id is of that folder's group; asking for the folder each time would cost as much as making a file.

use crate::core::Core;
use crate::errno::Answer;
use holdfast_base::NodeId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Instant;

/// Folders whose group is remembered; at this many all are forgotten.
const FOLDERS_MAX: usize = 256;

/// The groups that folders hand on, as long as the kernel would believe what it was told of them.
#[derive(Default)]
pub(crate) struct Inherited(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Of attributes, by this mount.
    changes: u64,
    /// When folders were asked for, and the groups of those that have set-group-id.
    folders: HashMap<NodeId, (Instant, Option<u32>)>,
}

impl Inherited {
    /// The group of a folder that hands it on.
    pub(crate) async fn group(&self, core: &Core, folder: NodeId) -> Answer<Option<u32>> {
        let changes = {
            let known = self.0.lock();
            if let Some((asked, group)) = known.folders.get(&folder)
                && asked.elapsed() < core.belief.short()
            {
                return Ok(*group);
            }
            known.changes
        };
        let asked = Instant::now();
        let above = core.entry(folder).await?.attributes(&core.usual);
        let group = (above.mode & 0o2000 != 0).then_some(above.gid);
        let mut known = self.0.lock();
        if known.changes == changes {
            if known.folders.len() >= FOLDERS_MAX {
                known.folders.clear();
            }
            known.folders.insert(folder, (asked, group));
        }
        Ok(group)
    }

    /// Attributes of something are about to change, or just did.
    pub(crate) fn forget(&self) {
        let mut known = self.0.lock();
        known.changes += 1;
        known.folders.clear();
    }
}
