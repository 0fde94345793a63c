//! Writing whole packs, removing them, and the vectored write that appends share.

use super::failed;
use super::layout::{Layout, create_new, sync_folder};
use super::open_files::OpenFiles;
use bytes::Bytes;
use holdfast_base::{PackName, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;

/// Parts handed to the kernel at once: `IOV_MAX` of Linux, above which the call fails.
const PARTS_PER_WRITE_MAX: usize = 1_024;

/// Stores a whole pack: aside, sync, name, sync of the folder.
///
/// An error after the name was given leaves a pack whose durability is not known and whose name is taken. Its writer
/// takes another name, and the drive's check finds the orphan.
pub(super) fn put(layout: &Layout, name: PackName, parts: &[Bytes]) -> Result<()> {
    let (aside, target) = (layout.aside(name), layout.pack(name));
    let written = create_new(&aside)
        .and_then(|file| {
            write_parts(&file, parts, 0)?;
            file.sync_data()
        })
        .and_then(|()| rename_new(&aside, &target));
    if let Err(error) = written {
        // The error being reported matters more than this one, and the next start removes what stays.
        let _ = std::fs::remove_file(&aside);
        return Err(failed("writing", name, &target, error));
    }
    sync_folder(&layout.folder_of(name)).map_err(|error| failed("making durable the name of", name, &target, error))
}

/// Renames without replacing.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems without that flag (NFS, some FUSE ones) can still link, which never replaces either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        other => other.map_err(io::Error::from),
    }
}

/// Removes a pack and makes that durable, also when it is gone already: an earlier try may have failed in between.
pub(super) fn delete(layout: &Layout, open_files: &OpenFiles, name: PackName) -> Result<()> {
    let path = layout.pack(name);
    let removed = std::fs::remove_file(&path);
    // Whatever happened to the name, an open file would keep its space from being given back.
    open_files.forget(name);
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("removing", name, &path, error)),
        _ => {}
    }
    sync_folder(&layout.folder_of(name)).map_err(|error| failed("making durable the removal of", name, &path, error))
}

/// Writes all parts at `offset`, in as few calls as the kernel takes.
pub(super) fn write_parts(file: &File, parts: &[Bytes], mut offset: u64) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(PARTS_PER_WRITE_MAX)];
        match rustix::io::pwritev(file, batch, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_parts_than_one_call_takes_arrive_in_order_with_empty_ones_between() {
        let mut parts = Vec::new();
        let mut expected = Vec::new();
        for index in 0..3 * PARTS_PER_WRITE_MAX {
            let part = vec![u8::try_from(index % 251).expect("small"); index % 7];
            expected.extend_from_slice(&part);
            parts.push(Bytes::from(part));
        }
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        write_parts(file.as_file(), &parts, 3).expect("writes");
        assert_eq!(std::fs::read(file.path()).expect("reads")[3..], expected);
    }

    #[test]
    fn a_rename_onto_an_existing_name_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, "new").expect("writes");
        std::fs::write(&to, "old").expect("writes");
        assert_eq!(rename_new(&from, &to).expect_err("exists").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&to).expect("reads"), b"old");
    }
}
