//! Changes as an archive, in the form of a layer of an image (OCI image specification, "Image Layer Filesystem Changeset"): a tar archive (POSIX.1-2001, pax) with
//! what is new or different as it is now; `.wh.NAME` stands for NAME that is gone, and `.wh..wh..opq` in a folder says that nothing of the old one is in it.
//!
//! Limits: sockets cannot be in it; nor can names that begin with `.wh.`, which would mean something else there.

use super::tree::{Node, Tree, attributes};
use super::{Change, Changes, Kind, LayerError, Lock, UPPER, failed};
use rustix::fs::{FileType, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BLOCK: usize = 512;

/// The largest numbers that fields of 8 and 12 octal digits hold; larger ones are in the extended header.
const SMALL_MAX: u64 = 0o777_7777;
const LARGE_MAX: u64 = 0o777_7777_7777;

/// Bytes of a name in the header itself.
const NAME_BYTES: usize = 100;

/// Writes the changes as an archive. No sandbox may use them now.
pub fn patch(lower: &Path, changes: &Path, to: &mut impl Write) -> Result<(), LayerError> {
    let _lock = Lock::take(changes)?;
    let list = Changes::read_locked(lower, changes)?;
    let upper = changes.join(UPPER);
    if upper.exists() {
        let tree = Tree::open(&upper).map_err(failed("opening", &upper))?;
        for change in &list {
            let path = upper.join(&change.path);
            if change.path.iter().any(|name| name.as_bytes().starts_with(WHITEOUT)) {
                return Err(LayerError::Unsupported {
                    path,
                    why: "in an archive this name means that another one is gone",
                });
            }
            one(&tree, change, to).map_err(|error| match error.kind() {
                io::ErrorKind::Unsupported => {
                    LayerError::Unsupported { path, why: "sockets and devices cannot be in an archive" }
                }
                _ => failed("archiving", &path)(error),
            })?;
        }
    }
    // Two empty blocks end it.
    to.write_all(&[0; 2 * BLOCK]).map_err(failed("writing the archive of", changes))
}

const WHITEOUT: &[u8] = b".wh.";

/// One member of the archive.
#[derive(Default)]
struct Member {
    path: Vec<u8>,
    kind: u8,
    link: Vec<u8>,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: (i64, i64),
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

fn one(upper: &Tree, change: &Change, to: &mut impl Write) -> io::Result<()> {
    let path = change.path.as_os_str().as_bytes();
    if change.kind == Kind::Deleted {
        let name = change.path.file_name().unwrap_or(OsStr::new("")).as_bytes();
        let above = &path[..path.len() - name.len()];
        return empty([above, WHITEOUT, name].concat(), to);
    }
    let Some(node) = upper.node(&change.path)? else { return Ok(()) };
    let mut member = Member::of(path, &node);
    match node.kind {
        FileType::Directory => {
            member.extended = attributes(upper.at(&change.path, OFlags::RDONLY | OFlags::DIRECTORY)?.as_fd())?
                .into_iter()
                .map(extended)
                .collect();
            member.path.push(b'/');
            member.kind = b'5';
            member.write(to)?;
            if change.kind == Kind::Replaced {
                return empty([path, b"/.wh..wh..opq"].concat(), to);
            }
            Ok(())
        }
        FileType::RegularFile => {
            let file = File::from(upper.at(&change.path, OFlags::RDONLY)?);
            member.extended = attributes(file.as_fd())?.into_iter().map(extended).collect();
            (member.kind, member.size) = (b'0', node.size);
            member.write(to)?;
            content(file, node.size, to)
        }
        FileType::Symlink => {
            (member.kind, member.link) = (b'2', upper.link(&change.path)?.into_bytes());
            member.write(to)
        }
        FileType::Fifo => {
            member.kind = b'6';
            member.write(to)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn extended((name, value): (std::ffi::CString, Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    ([b"SCHILY.xattr.", name.as_bytes()].concat(), value)
}

fn empty(path: Vec<u8>, to: &mut impl Write) -> io::Result<()> {
    Member { path, kind: b'0', mode: 0o600, ..Member::default() }.write(to)
}

/// As many bytes as were announced, and zeros up to a whole block.
fn content(file: File, size: u64, to: &mut impl Write) -> io::Result<()> {
    let copied = io::copy(&mut file.take(size), to)?;
    if copied != size {
        return Err(io::Error::other("the file became shorter while it was read"));
    }
    pad(size, to)
}

fn pad(size: u64, to: &mut impl Write) -> io::Result<()> {
    let over = usize::try_from(size % 512).unwrap_or(0);
    to.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])
}

impl Member {
    fn of(path: &[u8], node: &Node) -> Self {
        let Node { mode, uid, gid, modified, .. } = *node;
        Self { path: path.to_vec(), mode, uid, gid, modified, ..Self::default() }
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut records = Vec::new();
        let mut put = |key: &[u8], value: &[u8]| records.extend(record(key, value));
        for (key, value) in &self.extended {
            put(key, value);
        }
        for (key, value) in [("path", &self.path), ("linkpath", &self.link)] {
            if value.len() > NAME_BYTES || !value.is_ascii() {
                put(key.as_bytes(), value);
            }
        }
        let numbers =
            [("size", self.size, LARGE_MAX), ("uid", self.uid.into(), SMALL_MAX), ("gid", self.gid.into(), SMALL_MAX)];
        for (key, value, _) in numbers.into_iter().filter(|(_, value, most)| value > most) {
            put(key.as_bytes(), value.to_string().as_bytes());
        }
        let (seconds, nanos) = self.modified;
        if nanos != 0 && seconds >= 0 {
            put(b"mtime", format!("{seconds}.{nanos:09}").as_bytes());
        }
        if !records.is_empty() {
            let size = records.len() as u64;
            let header = Self { path: b"pax".to_vec(), kind: b'x', mode: 0o600, size, ..Self::default() };
            to.write_all(&header.block())?;
            to.write_all(&records)?;
            pad(size, to)?;
        }
        to.write_all(&self.block())
    }

    /// The header (`ustar`). What does not fit is cut off here, and whole in the extended one before it.
    fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, most: usize, bytes: &[u8]| {
            let bytes = &bytes[..bytes.len().min(most)];
            block[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, NAME_BYTES, &self.path);
        put(100, 8, format!("{:07o}", self.mode).as_bytes());
        put(108, 8, format!("{:07o}", u64::from(self.uid).min(SMALL_MAX)).as_bytes());
        put(116, 8, format!("{:07o}", u64::from(self.gid).min(SMALL_MAX)).as_bytes());
        put(124, 12, format!("{:011o}", self.size.min(LARGE_MAX)).as_bytes());
        put(136, 12, format!("{:011o}", self.modified.0.unsigned_abs().min(LARGE_MAX)).as_bytes());
        put(148, 8, b"        ");
        put(156, 1, &[self.kind]);
        put(157, NAME_BYTES, &self.link);
        put(257, 8, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

/// `LENGTH KEY=VALUE\n`, where the length counts its own digits.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [format!("{length} ").as_bytes(), key, b"=", value, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for bytes in [0, 1, 80, 85, 86, 87, 88, 89, 90, 91, 980, 985, 986, 987, 990, 9_980] {
            let record = record(b"path", &vec![b'x'; bytes]);
            let digits = record.split(|byte| *byte == b' ').next().expect("a number");
            let said: usize = std::str::from_utf8(digits).expect("digits").parse().expect("a number");
            assert_eq!(said, record.len(), "{bytes}");
        }
    }
}
