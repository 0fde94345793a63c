//! Records as they are added, for whoever watches.

use super::{NEW, Record, Records};
use holdfast_base::{Error, Result};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

/// Room for events of the kernel: a name of the longest kind and more.
const EVENT_BYTES: usize = 4096;

impl Records {
    /// Tells every record that is added from now on, until `told` says that it is enough or the function is removed. `ready` is called when none can be missed any more.
    pub fn follow(&self, ready: impl FnOnce() -> Result<()>, mut told: impl FnMut(Record) -> bool) -> Result<()> {
        self.watch(ready, &mut told).map_err(|error| match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(error) => Error::from(error).context(self.folder.display()),
        })
    }

    fn watch(&self, ready: impl FnOnce() -> Result<()>, told: &mut impl FnMut(Record) -> bool) -> io::Result<()> {
        // There may have been no call yet.
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let events = inotify::init(CreateFlags::CLOEXEC)?;
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        inotify::add_watch(&events, &self.folder, what | WatchFlags::MOVED_FROM | WatchFlags::DELETE)?;
        let mut tail = Tail { file: None, line: Vec::new() };
        tail.open(self, true)?;
        ready().map_err(io::Error::other)?;
        let mut room = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = inotify::Reader::new(&events, &mut room);
        loop {
            if !tail.read(self, told)? {
                return Ok(());
            }
            let event = reader.next()?;
            let gone = event.events().intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF | ReadFlags::IGNORED);
            // A file that is open here keeps the folder's own end from being told.
            if gone || (event.events().contains(ReadFlags::DELETE) && !self.folder.exists()) {
                return Ok(());
            }
        }
    }
}

/// The end of the newest file.
struct Tail {
    file: Option<BufReader<File>>,
    line: Vec<u8>,
}

impl Tail {
    fn open(&mut self, records: &Records, at_end: bool) -> io::Result<()> {
        match File::open(records.folder.join(NEW)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let mut file = opened?;
                if at_end {
                    file.seek(SeekFrom::End(0))?;
                }
                self.file = Some(BufReader::new(file));
            }
        }
        Ok(())
    }

    /// Tells what has come. False if it is enough.
    fn read(&mut self, records: &Records, told: &mut impl FnMut(Record) -> bool) -> io::Result<bool> {
        loop {
            if self.file.is_none() {
                self.open(records, false)?;
            }
            let Some(file) = &mut self.file else { return Ok(true) };
            while file.read_until(b'\n', &mut self.line)? > 0 && self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                if let Ok(record) = serde_json::from_slice(&line)
                    && !told(record)
                {
                    return Ok(false);
                }
            }
            // Its end was reached; another may be in its place.
            let here = file.get_ref().metadata()?.ino();
            match std::fs::metadata(records.folder.join(NEW)) {
                Ok(now) if now.ino() != here => self.file = None,
                _ => return Ok(true),
            }
        }
    }
}
