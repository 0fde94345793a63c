//! What a folder really occupies on disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Unit of `st_blocks` (stat(2)), whatever the file system's own block size.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes of disk used by everything below `folder`, itself included. Links are not followed. Entries that vanish
/// while it looks count nothing: the server under test goes on working.
pub(crate) fn used_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut blocks = fs::symlink_metadata(folder)?.blocks();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            blocks += metadata.blocks();
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(blocks * STAT_BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::used_bytes;

    #[test]
    fn a_written_file_adds_its_blocks_and_a_hole_adds_none() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("below"))?;
        let before = used_bytes(folder.path())?;
        std::fs::write(folder.path().join("below/full"), vec![7_u8; 1 << 20])?;
        std::fs::File::open(folder.path().join("below/full"))?.sync_all()?;
        std::fs::File::create(folder.path().join("hole"))?.set_len(1 << 30)?;
        let grown = used_bytes(folder.path())? - before;
        assert!((1 << 20..2 << 20).contains(&grown), "{grown}");
        Ok(())
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        assert!(used_bytes(std::path::Path::new("/nonexistent/folder")).is_err());
    }
}
