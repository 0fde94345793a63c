//! What a file system does, held against any folder: names, contents, attributes, and random operations beside a native folder.

#![expect(clippy::cast_possible_truncation, reason = "numbers made up for tests fit")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use holdfast_testkit::rng::Prng;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, mknodat, renameat_with};
use rustix::io::Errno;

use crate::Outcome;

/// The error number of what should have failed.
#[track_caller]
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<i32> {
    result.expect_err("this should have failed").raw_os_error()
}

/// Does everything there is to do in a folder, and looks whether it is done as on any file system.
pub fn behaves(at: &Path) -> Outcome {
    names(at)?;
    contents(at)?;
    attributes(at)?;
    special(at)?;
    unlinked(at)?;
    renames(at)?;
    links(at)
}

fn names(at: &Path) -> Outcome {
    let folder = at.join("names");
    fs::create_dir(&folder)?;
    assert_eq!(errno(fs::create_dir(&folder)), Some(libc::EEXIST));
    let long = "n".repeat(255);
    File::create(folder.join(&long))?;
    assert_eq!(errno(File::create(folder.join(long + "n"))), Some(libc::ENAMETOOLONG));
    let not_text = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    assert_eq!(errno(File::create(folder.join(not_text))), Some(libc::EILSEQ));
    assert_eq!(errno(fs::metadata(folder.join(not_text))), Some(libc::ENOENT));
    assert_eq!(errno(fs::remove_dir(&folder)), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::remove_file(&folder)), Some(libc::EISDIR));
    for number in 0..1_500 {
        File::create(folder.join(format!("m{number}")))?;
    }
    let mut listed: Vec<_> = fs::read_dir(&folder)?.map(|it| it.map(|it| it.file_name())).collect::<Result<_, _>>()?;
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 1_501);
    let numbers = fs::read_dir(&folder)?.map(|it| Ok(it?.metadata()?.ino()));
    let numbers: std::collections::HashSet<u64> = numbers.collect::<std::io::Result<_>>()?;
    assert_eq!(numbers.len(), 1_501, "numbers are of one node each");
    // Removing while it is listed leaves nothing out.
    for entry in fs::read_dir(&folder)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(&folder)?;
    assert!(!folder.exists());
    Ok(())
}

fn contents(at: &Path) -> Outcome {
    let path = at.join("content");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    assert_eq!(
        OpenOptions::new().write(true).create_new(true).open(&path).expect_err("is there").kind(),
        ErrorKind::AlreadyExists
    );
    let mut expected = vec![0; 5 << 20];
    Prng::new(1).fill(&mut expected);
    file.write_all(&expected)?;
    assert_eq!(fs::read(&path)?, expected, "what is written is seen before it is saved");
    file.sync_all()?;
    file.write_all_at(b"patch", (3 << 20) - 2)?;
    expected[(3 << 20) - 2..(3 << 20) + 3].copy_from_slice(b"patch");
    drop(file);
    assert_eq!(fs::read(&path)?, expected);
    let mut appending = OpenOptions::new().append(true).open(&path)?;
    appending.write_all(b"end")?;
    drop(appending);
    expected.extend_from_slice(b"end");
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.set_len(1_000_001)?;
    expected.truncate(1_000_001);
    file.set_len(2_500_000)?;
    expected.resize(2_500_000, 0);
    assert_eq!(fs::read(&path)?, expected);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 10, 70_000)?;
    expected[10..70_010].fill(0);
    fallocate(&file, FallocateFlags::empty(), 0, 2_600_000)?;
    expected.resize(2_600_000, 0);
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4_096), Err(Errno::OPNOTSUPP));
    drop(file);
    assert_eq!(fs::read(&path)?, expected);
    let mut file = File::open(&path)?;
    assert_eq!(file.seek(SeekFrom::End(-5))?, 2_599_995);
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    assert_eq!(rest, [0; 5]);
    fs::copy(&path, at.join("copy"))?;
    assert_eq!(fs::read(at.join("copy"))?, expected);
    assert_eq!(errno(fs::write(at.join("none/x"), "")), Some(libc::ENOENT));
    assert_eq!(errno(fs::write(path.join("x"), "")), Some(libc::ENOTDIR));
    Ok(())
}

fn attributes(at: &Path) -> Outcome {
    let path = at.join("attributes");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o4640).open(&path)?;
    file.write_all(b"x")?;
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
    file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time))?;
    drop(file);
    let found = fs::metadata(&path)?;
    assert_eq!(found.modified()?, time, "set before the close, and to the nanosecond");
    assert_eq!((found.accessed()?, found.mode() & 0o7777, found.nlink()), (time, 0o4640, 1));
    std::os::unix::fs::chown(&path, Some(1_001), Some(1_002))?;
    let found = fs::metadata(&path)?;
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o7777),
        (1_001, 1_002, 0o640),
        "another owner, no privileges"
    );
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    let before = fs::metadata(at)?.modified()?;
    fs::create_dir(at.join("group"))?;
    assert!(fs::metadata(at)?.modified()? >= before, "a folder changes with its members");
    std::os::unix::fs::chown(at.join("group"), None, Some(1_003))?;
    fs::set_permissions(at.join("group"), Permissions::from_mode(0o2775))?;
    fs::create_dir(at.join("group/below"))?;
    let below = fs::metadata(at.join("group/below"))?;
    assert_eq!((below.gid(), below.mode() & 0o2000), (1_003, 0o2000), "the group goes down");
    xattrs(&path)
}

fn xattrs(path: &Path) -> Outcome {
    use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
    setxattr(path, "user.colour", b"\0red\xff", XattrFlags::CREATE)?;
    assert_eq!(setxattr(path, "user.colour", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    let mut room = [0; 64];
    let length = getxattr(path, "user.colour", &mut room[..])?;
    assert_eq!(&room[..length], b"\0red\xff");
    let length = listxattr(path, &mut room[..])?;
    assert_eq!(&room[..length], b"user.colour\0");
    removexattr(path, "user.colour")?;
    assert_eq!(getxattr(path, "user.colour", &mut room[..]), Err(Errno::NODATA));
    Ok(())
}

fn special(at: &Path) -> Outcome {
    symlink("../outside/of it", at.join("link"))?;
    assert_eq!(fs::read_link(at.join("link"))?, Path::new("../outside/of it"));
    assert!(fs::symlink_metadata(at.join("link"))?.is_symlink());
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    mknodat(CWD, at.join("fifo"), rustix::fs::FileType::Fifo, mode, 0)?;
    assert!(fs::symlink_metadata(at.join("fifo"))?.file_type().is_fifo());
    std::os::unix::net::UnixListener::bind(at.join("socket"))?;
    assert!(fs::symlink_metadata(at.join("socket"))?.file_type().is_socket());
    let room = rustix::fs::statvfs(at)?;
    assert!(room.f_bavail > 0 && room.f_namemax == 255);
    Ok(())
}

fn unlinked(at: &Path) -> Outcome {
    let path = at.join("unlinked");
    fs::write(&path, vec![7; 2 << 20])?;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    fs::remove_file(&path)?;
    assert!(!path.exists());
    file.write_all_at(b"still", 1 << 20)?;
    file.sync_all()?;
    let mut read = [0; 6];
    file.read_exact_at(&mut read, 1 << 20)?;
    assert_eq!((&read, file.metadata()?.nlink()), (b"still\x07", 0));
    fs::write(&path, "another")?;
    assert_eq!(file.metadata()?.len(), 2 << 20);
    drop(file);
    assert_eq!(fs::read(&path)?, b"another");
    Ok(())
}

fn renames(at: &Path) -> Outcome {
    let (one, two) = (at.join("one"), at.join("two"));
    fs::write(&one, "1")?;
    fs::write(&two, "2")?;
    let rename = |flags| renameat_with(CWD, &one, CWD, &two, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE)?;
    assert_eq!((fs::read(&one)?, fs::read(&two)?), (b"2".to_vec(), b"1".to_vec()));
    let open = File::open(&two)?;
    rename(RenameFlags::empty())?;
    assert_eq!((fs::read(&two)?, one.exists(), open.metadata()?.nlink()), (b"2".to_vec(), false, 0));
    let mut kept = String::new();
    (&open).read_to_string(&mut kept)?;
    assert_eq!(kept, "1", "what was replaced is still there for who has it open");
    fs::create_dir_all(at.join("deep/er"))?;
    assert_eq!(errno(fs::rename(at.join("deep"), at.join("deep/er/x"))), Some(libc::EINVAL));
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(at.join("deep/moving"))?;
    file.write_all_at(b"before", 0)?;
    fs::rename(at.join("deep/moving"), at.join("moved"))?;
    file.write_all_at(b"after!", 0)?;
    drop(file);
    assert_eq!(fs::read(at.join("moved"))?, b"after!");
    Ok(())
}

/// Files of several names.
fn links(at: &Path) -> Outcome {
    let [a, b, c] = ["la", "lb", "lc"].map(|name| at.join(name));
    let seen = |path: &Path| fs::symlink_metadata(path).map(|found| (found.ino(), found.nlink(), found.len()));
    fs::write(&a, "one")?;
    let before = fs::metadata(&a)?;
    std::thread::sleep(std::time::Duration::from_millis(10));
    fs::hard_link(&a, &b)?;
    assert_eq!((seen(&a)?, seen(&b)?), ((before.ino(), 2, 3), (before.ino(), 2, 3)));
    let ctime = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
    assert!(ctime(&fs::metadata(&a)?) > ctime(&before), "that it has another name is a change of it");
    fs::write(&b, "two!")?;
    assert_eq!((fs::read(&a)?, seen(&a)?), (b"two!".to_vec(), (before.ino(), 2, 4)));
    fs::set_permissions(&a, Permissions::from_mode(0o601))?;
    assert_eq!(fs::metadata(&b)?.mode() & 0o777, 0o601);
    assert_eq!(errno(fs::hard_link(&a, &b)), Some(libc::EEXIST));
    fs::create_dir(at.join("lfolder"))?;
    assert_eq!(errno(fs::hard_link(at.join("lfolder"), &c)), Some(libc::EPERM));
    // What is written through a name that goes is under the one that stays, also when it is written later.
    let file = OpenOptions::new().write(true).open(&a)?;
    file.write_all_at(b"3", 0)?;
    fs::remove_file(&a)?;
    assert_eq!((file.metadata()?.nlink(), seen(&b)?), (1, (before.ino(), 1, 4)), "the file is what it was");
    file.write_all_at(b"4", 1)?;
    drop(file);
    assert_eq!(fs::read(&b)?, b"34o!");
    // And so when it is replaced under the name that it was opened by.
    fs::hard_link(&b, &a)?;
    let file = OpenOptions::new().write(true).open(&b)?;
    file.write_all_at(b"5", 2)?;
    fs::write(&c, "another")?;
    fs::rename(&c, &b)?;
    file.write_all_at(b"6", 3)?;
    drop(file);
    assert_eq!((fs::read(&a)?, fs::read(&b)?), (b"3456".to_vec(), b"another".to_vec()));
    assert_eq!(seen(&a)?, (before.ino(), 1, 4));
    // Until the last is gone.
    fs::hard_link(&a, at.join("lfolder/la"))?;
    let mut file = File::open(&a)?;
    fs::remove_file(&a)?;
    fs::remove_file(at.join("lfolder/la"))?;
    let mut kept = String::new();
    file.read_to_string(&mut kept)?;
    assert_eq!((kept.as_str(), file.metadata()?.nlink()), ("3456", 0));
    fs::rename(&b, at.join("lfolder/b"))?;
    fs::hard_link(at.join("lfolder/b"), &b)?;
    fs::rename(&b, at.join("lfolder/b"))?;
    assert!(b.exists() && seen(&b)?.1 == 2, "a rename to another name of the same file does nothing");
    symlink("nowhere", &c)?;
    fs::hard_link(&c, at.join("lfolder/c"))?;
    assert_eq!((fs::read_link(at.join("lfolder/c"))?, seen(&c)?.1), (Path::new("nowhere").to_owned(), 2));
    Ok(())
}

/// So many random operations have the same outcome here as in a native folder.
pub fn operations_are_the_same(at: &Path, native: &Path, seed: u64, steps: u64) -> Outcome {
    let mut random = Prng::new(seed);
    for step in 0..steps {
        let mut twin = random.fork();
        let mut same = Prng::new(twin.next_u64());
        let mut again = same.fork();
        let choice = again.next_u64();
        let theirs = operate(native, &mut Prng::new(choice));
        let ours = operate(at, &mut Prng::new(choice));
        if ours != theirs {
            return Err(format!("seed {seed}, step {step}: {ours:?} and not {theirs:?}").into());
        }
    }
    same_trees(at, native)
}

/// Random operations here and in a native folder until the first fails because the file system is gone. Answers how many were done in both.
///
/// What the last one was about is as it was before, after, or in between; everything else is to be the same in both: see [`same_but_for`].
pub fn operations_until_it_ends(at: &Path, native: &Path, seed: u64) -> Outcome<(u64, Vec<String>)> {
    let mut random = Prng::new(seed);
    let gone = [libc::ECONNABORTED, libc::ENOTCONN].map(|number| format!("{:?}", Some(number)));
    for step in 0_u64.. {
        let choice = random.next_u64();
        let ours = operate(at, &mut Prng::new(choice));
        // Nobody says what became of closing a file; what is asked here is never answered from the kernel's cache, nor where nothing is mounted any more.
        if gone.contains(&ours) || rustix::fs::statvfs(at).is_err() {
            let names = names_of(&mut Prng::new(choice)).into_iter().flat_map(|name| with_targets(native, name));
            return Ok((step, with_other_names(native, names.collect())?));
        }
        let theirs = operate(native, &mut Prng::new(choice));
        if ours != theirs {
            return Err(format!("seed {seed}, step {step}: {ours:?} and not {theirs:?}").into());
        }
    }
    Err("there is no end".into())
}

/// A name, and where it leads if it is a symbolic link: what is done to the one is done to the other.
fn with_targets(root: &Path, name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    let Ok(root) = fs::canonicalize(root) else { return all };
    let mut at = root.join(name);
    // The folders it is in may be links as well, and links may lead to themselves.
    for _ in 0..8 {
        let Some((folder, last)) = at.parent().and_then(|folder| fs::canonicalize(folder).ok()).zip(at.file_name())
        else {
            break;
        };
        let real = folder.join(last);
        let Ok(below) = real.strip_prefix(&root) else { break };
        all.push(below.display().to_string());
        let Ok(target) = fs::read_link(&real) else { break };
        at = folder.join(target);
    }
    all
}

/// Names, and the others that the same files have.
fn with_other_names(root: &Path, mut names: Vec<String>) -> Outcome<Vec<String>> {
    let number = |path: &Path| fs::symlink_metadata(path).ok().filter(|found| !found.is_dir()).map(|found| found.ino());
    let files: Vec<u64> = names.iter().filter_map(|name| number(&root.join(name))).collect();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if number(&path).is_some_and(|number| files.contains(&number)) {
                names.push(path.strip_prefix(root)?.display().to_string());
            } else if fs::symlink_metadata(&path)?.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(names)
}

/// What there is below a folder but for some names and what is below them: kinds and modes, targets and bytes by their hash, with how many names they have.
pub fn same_but_for(at: &Path, names: &[String]) -> Outcome<BTreeMap<String, (u32, u64)>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let below = path.strip_prefix(at)?;
            if names.iter().any(|name| below.starts_with(name)) {
                continue;
            }
            let attributes = fs::symlink_metadata(&path)?;
            let mut hasher = DefaultHasher::new();
            if !attributes.is_dir() {
                attributes.nlink().hash(&mut hasher);
            }
            if attributes.is_dir() {
                folders.push(path.clone());
            } else if attributes.is_symlink() {
                fs::read_link(&path)?.hash(&mut hasher);
            } else {
                fs::read(&path)?.hash(&mut hasher);
            }
            found.insert(below.display().to_string(), (attributes.mode(), hasher.finish()));
        }
    }
    Ok(found)
}

/// The names that an operation is about.
fn names_of(random: &mut Prng) -> [&'static str; 2] {
    let names = ["a", "b", "c", "d/a", "d/b", "d/e", "d", "d/e/f", "g"];
    [*random.pick(&names), *random.pick(&names)]
}

/// One operation, and what came of it.
fn operate(root: &Path, random: &mut Prng) -> String {
    let [one, two] = names_of(random).map(|name| root.join(name));
    let offset = random.below(3 << 20);
    let length = random.below(200_000);
    let flagged = |flags| renameat_with(CWD, &one, CWD, &two, flags).map_err(std::io::Error::from);
    let done = match random.below(15) {
        0 | 1 => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&one)
            .and_then(|file| file.write_all_at(&vec![length as u8; length as usize], offset)),
        2 => fs::write(&one, vec![offset as u8; length as usize]),
        3 => OpenOptions::new().write(true).open(&one).and_then(|file| file.set_len(offset)),
        4 => fs::create_dir(&one),
        5 => fs::remove_dir(&one),
        6 => fs::remove_file(&one),
        7 => fs::rename(&one, &two),
        8 => symlink("a", &one),
        9 => fs::set_permissions(&one, Permissions::from_mode(0o600 | (length as u32 & 0o177))),
        10 => flagged(RenameFlags::NOREPLACE),
        11 => flagged(RenameFlags::EXCHANGE),
        12 => fs::write(&one, vec![length as u8; (length % 3_000) as usize]),
        13 => fs::hard_link(&one, &two),
        _ => OpenOptions::new().append(true).open(&one).and_then(|mut file| file.write_all(b"appended")),
    };
    done.map_or_else(|error| format!("{:?}", error.raw_os_error()), |()| "done".to_owned())
}

/// Whether two trees have the same names, kinds, modes and bytes, and as many names of each file.
pub fn same_trees(ours: &Path, theirs: &Path) -> Outcome {
    let names = |folder: &Path| -> Outcome<Vec<_>> {
        let mut names: Vec<_> =
            fs::read_dir(folder)?.map(|it| it.map(|it| it.file_name())).collect::<Result<_, _>>()?;
        names.sort();
        Ok(names)
    };
    assert_eq!(names(ours)?, names(theirs)?, "in {}", theirs.display());
    for name in names(theirs)? {
        let (one, two) = (ours.join(&name), theirs.join(&name));
        let (mine, native) = (fs::symlink_metadata(&one)?, fs::symlink_metadata(&two)?);
        assert_eq!(mine.mode(), native.mode(), "{}", two.display());
        if native.is_dir() {
            same_trees(&one, &two)?;
            continue;
        }
        assert_eq!(mine.nlink(), native.nlink(), "{}", two.display());
        if native.is_symlink() {
            assert_eq!(fs::read_link(&one)?, fs::read_link(&two)?);
        } else {
            let (mine, native) = (fs::read(&one)?, fs::read(&two)?);
            let at = mine.iter().zip(&native).position(|(mine, native)| mine != native);
            let lengths = (mine.len(), native.len());
            assert!(mine == native, "{} has other bytes from {at:?} on: {lengths:?} bytes", two.display());
        }
    }
    Ok(())
}
