//! What a process has, as `/proc` shows it, and whether a policy lets it.

use super::{Rights, still};
use holdfast_policy::{Arguments, Operation, Request};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, readlink, statx};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most descriptors and mappings of a process that are looked at, each thread's own among them.
const LOOKS_MAX: usize = 200_000;
/// Characters of a path that are shown, so that all that are named fit into one answer.
const SHOWN_MAX: usize = 1000;
/// What the kernel writes behind a name that is no more.
const DELETED: &[u8] = b" (deleted)";

/// Most of what a process has that is kept to be told.
const FOUND_MAX: usize = 100;

/// Why a process is to be ended.
#[derive(Default)]
pub(super) struct Found {
    had: Vec<String>,
    more: usize,
}

impl Found {
    pub(super) fn add(&mut self, what: String) {
        if self.had.contains(&what) {
            return;
        }
        if self.had.len() < FOUND_MAX {
            self.had.push(what);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.had.is_empty()
    }

    pub(super) fn told(mut self, most: usize) -> Vec<String> {
        let more = self.had.len().saturating_sub(most) + self.more;
        self.had.truncate(most);
        if more > 0 {
            self.had.push(format!("and {more} more"));
        }
        self.had
    }
}

/// What it runs, as it sees it.
pub(super) fn program_of(pid: i32) -> String {
    Place::of(pid).map_or_else(|_| "?".to_owned(), |place| shown(&[place.program]))
}

/// The mounts and the file systems of a view, which all processes have in common; whatever is in none of them was handed over.
pub(super) struct Mounts {
    numbers: HashSet<u64>,
    devices: HashSet<(u32, u32)>,
}

impl Mounts {
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/mountinfo"))?;
        let (mut numbers, mut devices) = (HashSet::new(), HashSet::new());
        for line in text.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ');
            numbers.extend(fields.next().and_then(number));
            devices.extend(fields.nth(1).and_then(|device| pair(device, 10)));
        }
        Ok(Self { numbers, devices })
    }
}

/// Finds what a process, which stands still, has and may not have.
pub(super) fn look(pid: i32, mounts: &Mounts, rights: &Rights<'_>, found: &mut Found) {
    let looked = Place::of(pid).and_then(|place| {
        let mut looking = Looking { place, mounts, rights, found, left: LOOKS_MAX };
        looking.mappings()?;
        still::threads(pid).into_iter().try_for_each(|thread| looking.thread(thread))
    });
    match looked {
        Ok(()) => {}
        // Of what has ended there is nothing; whether it has, the caller looks.
        Err(error) => found.add(format!("cannot be looked into ({error})")),
    }
}

/// Where a process is.
struct Place {
    pid: i32,
    program: PathBuf,
    /// Its root, as the kernel writes it for us, without a slash at its end.
    top: Vec<u8>,
}

impl Place {
    fn of(pid: i32) -> io::Result<Self> {
        let top = readlink(format!("/proc/{pid}/root"), Vec::new())?.into_bytes();
        let top = top.strip_suffix(b"/").unwrap_or(&top).to_vec();
        let mut place = Self { pid, program: PathBuf::new(), top };
        let program = readlink(format!("/proc/{pid}/exe"), Vec::new())?.into_bytes();
        place.program = as_path(place.inside(program.strip_suffix(DELETED).unwrap_or(&program)).unwrap_or(&program));
        Ok(place)
    }

    /// A path as it is in the sandbox.
    fn inside<'a>(&self, written: &'a [u8]) -> Option<&'a [u8]> {
        match written.strip_prefix(self.top.as_slice())? {
            [] => Some(b"/"),
            rest if rest[0] == b'/' => Some(rest),
            _ => None,
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// A device's numbers, which the two lists of the kernel have in different digits.
fn pair(text: &[u8], radix: u32) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some((u32::from_str_radix(major, radix).ok()?, u32::from_str_radix(minor, radix).ok()?))
}

fn as_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// What the last line of this name says (`proc_pid_fdinfo`(5)).
fn line<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

struct Looking<'a> {
    place: Place,
    mounts: &'a Mounts,
    rights: &'a Rights<'a>,
    found: &'a mut Found,
    left: usize,
}

impl Looking<'_> {
    fn once_more(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("it has too much open"))?;
        Ok(())
    }

    /// What a thread has open and stands in. Most share it with all others of their process, which nobody says.
    fn thread(&mut self, thread: i32) -> io::Result<()> {
        let task = format!("/proc/{}/task/{thread}", self.place.pid);
        let entries = match fs::read_dir(format!("{task}/fd")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            self.once_more()?;
            let name = entry?.file_name();
            self.descriptor(&task, &name.to_string_lossy())?;
        }
        match readlink(format!("{task}/cwd"), Vec::new()) {
            // An ended thread stands nowhere.
            Err(rustix::io::Errno::NOENT) => Ok(()),
            written => {
                let written = written?.into_bytes();
                let names = self.names(&written, 1);
                if !self.allow_all(&names, &[Operation::Lookup]) {
                    self.found.add(format!("its working directory is {}", shown(&names)));
                }
                Ok(())
            }
        }
    }

    fn descriptor(&mut self, task: &str, name: &str) -> io::Result<()> {
        let link = format!("{task}/fd/{name}");
        let info = fs::read_to_string(format!("{task}/fdinfo/{name}"))?;
        if let Some(sent) =
            line(&info, "scm_fds").and_then(|number| number.parse::<u64>().ok()).filter(|sent| *sent > 0)
        {
            self.found.add(format!("descriptors are on the way to it in a socket ({sent}), and nobody can say which"));
        }
        let mount = line(&info, "mnt_id").and_then(|number| number.parse().ok());
        let written = readlink(&link, Vec::new())?.into_bytes();
        if written.first() != Some(&b'/') || mount.is_some_and(|mount: u64| !self.mounts.numbers.contains(&mount)) {
            return Ok(());
        }
        let flags = line(&info, "flags").and_then(|flags| i32::from_str_radix(flags, 8).ok());
        let flags = flags.ok_or_else(|| io::Error::other("its descriptors are not described"))?;
        let (kind, links) = kind(&link);
        let names = self.names(&written, links);
        let wanted = operations(flags, kind);
        if !self.allow_all(&names, wanted) {
            self.found.add(format!("has {} open{}", shown(&names), purpose(flags)));
        } else if wanted != [Operation::Lookup] {
            self.each_call(&names);
        }
        Ok(())
    }

    /// Rules of each call hold what was opened under such.
    fn each_call(&mut self, names: &[PathBuf]) {
        let escapes =
            |name: &PathBuf| !self.rights.judge.of_each_call(name).is_empty() && !(self.rights.asked_each_call)(name);
        if names.iter().any(escapes) {
            self.found.add(format!("has {} open since before there were rules of each call", shown(names)));
        }
    }

    fn mappings(&mut self) -> io::Result<()> {
        let text = fs::read(format!("/proc/{}/maps", self.place.pid))?;
        // By path: whether one can be written through.
        let mut mapped: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        let mut writable = None;
        for line in text.split(|byte| *byte == b'\n') {
            self.once_more()?;
            let Some(mapping) = Mapping::of(line).filter(|mapping| self.mounts.devices.contains(&mapping.device))
            else {
                continue;
            };
            let writes = match &writable {
                _ if !mapping.shared || mapping.writes => mapping.shared,
                Some(starts) => HashSet::contains(starts, mapping.start),
                None => writable.insert(may_be_written(self.place.pid)?).contains(mapping.start),
            };
            *mapped.entry(unescaped(mapping.path)).or_default() |= writes;
        }
        for (path, writes) in mapped {
            let names = self.names(&path, 1);
            let reads = self.allow_all(&names, &[Operation::Read, Operation::Mmap]);
            if !(reads || self.allow_all(&names, &[Operation::Exec])) {
                self.found.add(format!("maps {}", shown(&names)));
            } else if writes && !self.allow_all(&names, &[Operation::Write]) {
                self.found.add(format!("maps {} to write", shown(&names)));
            } else if writes {
                self.each_call(&names);
            }
        }
        Ok(())
    }

    /// The names that are asked about. What is removed has its last name, with a word behind it that a name can have, too: whether it is removed, the number of its links
    /// says, and where that is not known, both are asked about.
    fn names(&self, written: &[u8], links: u32) -> Vec<PathBuf> {
        // What is outside of the root was handed over, but then it is in another mount.
        let path = self.place.inside(written).unwrap_or(written);
        match path.strip_suffix(DELETED) {
            Some(before) if links == 0 => vec![as_path(before)],
            Some(before) => vec![as_path(before), as_path(path)],
            None => vec![as_path(path)],
        }
    }

    fn allow_all(&self, names: &[PathBuf], operations: &[Operation]) -> bool {
        names.iter().all(|path| operations.iter().all(|operation| self.allows(path, *operation)))
    }

    fn allows(&self, path: &Path, operation: Operation) -> bool {
        let request = Request { program: &self.place.program, operation, path, arguments: Arguments::default() };
        let Rights { judge, .. } = self.rights;
        judge.judge(&request).allowed
            || judge.could_allow(&request)
            || (is_own(path) && judge.judge(&request).rule.is_none())
    }
}

/// Where mappings begin that can be written or be made so (`mw` of `VmFlags`, `proc_pid_smaps`(5)).
fn may_be_written(pid: i32) -> io::Result<HashSet<Vec<u8>>> {
    let text = fs::read(format!("/proc/{pid}/smaps"))?;
    let (mut starts, mut start) = (HashSet::new(), &b""[..]);
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            if flags.split(|byte| *byte == b' ').any(|flag| flag == b"mw") {
                starts.insert(start.to_vec());
            }
        } else if line.first().is_some_and(u8::is_ascii_hexdigit) && !line.first().is_some_and(u8::is_ascii_uppercase) {
            start = line.split(|byte| *byte == b'-').next().unwrap_or(line);
        }
    }
    Ok(starts)
}

/// What every sandbox has: its root, its own processes, and the devices that it was started with.
fn is_own(path: &Path) -> bool {
    path == Path::new("/") || path.starts_with("/proc") || path.starts_with("/dev")
}

/// What a descriptor of such flags lets do that is decided when it is opened.
fn operations(flags: i32, kind: Option<FileType>) -> &'static [Operation] {
    if flags & libc::O_PATH != 0 {
        return &[Operation::Lookup];
    }
    match (flags & libc::O_ACCMODE, kind) {
        (libc::O_RDONLY, Some(FileType::Directory)) => &[Operation::Readdir],
        // What may be read and not mapped cannot be opened where a broker is asked, since nobody is asked about a mapping.
        (libc::O_RDONLY, Some(_)) => &[Operation::Read, Operation::Mmap],
        (libc::O_RDONLY, None) => &[Operation::Read, Operation::Mmap, Operation::Readdir],
        (libc::O_WRONLY, _) => &[Operation::Write],
        _ => &[Operation::Read, Operation::Mmap, Operation::Write],
    }
}

fn purpose(flags: i32) -> &'static str {
    match flags & libc::O_ACCMODE {
        _ if flags & libc::O_PATH != 0 => "",
        libc::O_RDONLY => " to read",
        libc::O_WRONLY => " to write",
        _ => " to read and write",
    }
}

/// What an open file is, and how many names it has. No file system is asked: one that does not answer would hold us up.
fn kind(link: &str) -> (Option<FileType>, u32) {
    let flags = AtFlags::from_bits_retain(libc::AT_STATX_DONT_SYNC.unsigned_abs());
    match statx(CWD, link, flags, StatxFlags::TYPE | StatxFlags::NLINK) {
        Ok(found) => (Some(FileType::from_raw_mode(found.stx_mode.into())), found.stx_nlink),
        Err(_) => (None, 1),
    }
}

fn shown(names: &[PathBuf]) -> String {
    let name = names.first().map_or_else(String::new, |name| name.display().to_string());
    if name.chars().nth(SHOWN_MAX).is_none() { name } else { name.chars().take(SHOWN_MAX).chain(['…']).collect() }
}

/// A line of `/proc/PID/maps` that is about a file.
struct Mapping<'a> {
    start: &'a [u8],
    writes: bool,
    shared: bool,
    device: (u32, u32),
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (range, rights, _, device, _) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (device, path) = (pair(device, 16)?, fields.next()?.trim_ascii_start());
        let start = range.split(|byte| *byte == b'-').next()?;
        let is = |at: usize, letter: u8| rights.get(at) == Some(&letter);
        (path.first() == Some(&b'/')).then_some(Self { start, writes: is(1, b'w'), shared: is(3, b's'), device, path })
    }
}

/// A new line in a name is written as `\012`, and nothing else is changed.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((byte, more)) = rest.split_first() {
        let line = rest.strip_prefix(br"\012");
        plain.push(if line.is_some() { b'\n' } else { *byte });
        rest = line.unwrap_or(more);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mappings_are_read() {
        let text = b"7f1c2a000000-7f1c2a021000 rw-s 00000000 fe:10 1234                       /a b\\012c (deleted)";
        let mapping = Mapping::of(text).expect("a file");
        assert_eq!((mapping.writes, mapping.shared, mapping.device), (true, true, (254, 16)));
        assert_eq!(unescaped(mapping.path), b"/a b\nc (deleted)");
        for other in
            [&b"7f1c2a000000-7f1c2a021000 rw-p 00000000 00:00 0 "[..], b"7ffd-7ffe r-xp 0 00:00 0   [vdso]", b""]
        {
            assert!(Mapping::of(other).is_none());
        }
    }

    #[test]
    fn a_descriptor_is_what_its_flags_say() {
        use Operation::{Lookup, Mmap, Read, Readdir, Write};
        for (flags, kind, expected) in [
            (libc::O_RDONLY, Some(FileType::Directory), &[Readdir][..]),
            (libc::O_RDONLY | libc::O_APPEND, Some(FileType::RegularFile), &[Read, Mmap]),
            (libc::O_RDONLY, None, &[Read, Mmap, Readdir]),
            (libc::O_WRONLY, Some(FileType::RegularFile), &[Write]),
            (libc::O_RDWR, Some(FileType::RegularFile), &[Read, Mmap, Write]),
            (libc::O_PATH | libc::O_RDWR, Some(FileType::RegularFile), &[Lookup]),
        ] {
            assert_eq!(operations(flags, kind), expected, "{flags:o}");
        }
        assert_eq!(line("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", "mnt_id"), Some("29"));
    }
}
