//! Lengths and lists of packs. A page of a list reads the folders from where the last page ended, so its memory is
//! bounded by one folder's names (a 256th of the store) and the page.

use super::layout::{Layout, PACK_SUFFIX};
use super::{failed, failure::failed_on_store};
use crate::PackEntry;
use holdfast_base::{PackName, Result};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// The length of a pack, or none if there is no such pack.
pub(super) fn len(layout: &Layout, name: PackName) -> Result<Option<u64>> {
    let path = layout.pack(name);
    match std::fs::metadata(&path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("asking for the length of", name, &path, error)),
    }
}

/// Up to `limit` packs in name order after `after`. A pack that vanishes meanwhile is left out.
pub(super) fn list(layout: &Layout, after: Option<PackName>, limit: usize) -> Result<Vec<PackEntry>> {
    let mut entries = Vec::new();
    for first in after.map_or(0, |after| after.0[0])..=u8::MAX {
        if entries.len() >= limit {
            break;
        }
        let folder = layout.folder(first);
        let names = names_in(&folder, first, after)
            .map_err(|error| failed_on_store("listing one of its folders", &folder, error))?;
        for name in names {
            if entries.len() >= limit {
                break;
            }
            if let Some(bytes) = len(layout, name)? {
                entries.push(PackEntry { name, bytes });
            }
        }
    }
    Ok(entries)
}

fn names_in(folder: &Path, first: u8, after: Option<PackName>) -> io::Result<Vec<PackName>> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let name = pack_name(&file?.file_name());
        names.extend(name.filter(|name| name.0[0] == first && Some(*name) > after));
    }
    names.sort_unstable();
    Ok(names)
}

/// The pack a file name stands for. Files that are no packs of ours are not reported, so that nothing deletes them.
fn pack_name(file_name: &OsStr) -> Option<PackName> {
    let digits = file_name.to_str()?.strip_suffix(PACK_SUFFIX)?;
    let name: PackName = digits.parse().ok()?;
    (name.to_string() == digits).then_some(name)
}
