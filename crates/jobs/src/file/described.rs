//! Job files as they are now: read at the start, and again when somebody says so.

use super::{Loaded, Set};
use holdfast_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Files that may be named, those of folders included.
const FILES_MAX: usize = 1_000;

/// Files, and folders of files, and what they say.
pub struct Described {
    paths: Vec<PathBuf>,
    files: Mutex<BTreeMap<PathBuf, Loaded>>,
    set: watch::Sender<Arc<Set>>,
}

impl Described {
    /// Reads the files, all of which must be right the first time. Of a folder, those whose names end in `.toml` are read.
    pub fn read(paths: Vec<PathBuf>) -> Result<Self> {
        let files = files(&paths)?.into_iter().map(|path| Ok((path.clone(), Loaded::read(&path)?)));
        let files = files.collect::<Result<BTreeMap<_, _>>>()?;
        let set = watch::Sender::new(Arc::new(of(&files)?));
        Ok(Self { paths, files: Mutex::new(files), set })
    }

    /// Reads all files anew. Those that cannot be read keep what they said, which is told.
    pub fn reload(&self) -> Result<()> {
        let mut known = self.files.lock();
        let (mut read, mut wrong) = (BTreeMap::new(), None);
        for path in files(&self.paths)? {
            match (Loaded::read(&path), known.get(&path)) {
                (Ok(loaded), _) => {
                    read.insert(path, loaded);
                }
                (Err(error), before) => {
                    wrong = wrong.or(Some(error));
                    read.extend(before.map(|before| (path, before.clone())));
                }
            }
        }
        let set = of(&read)?;
        *known = read;
        self.set.send_replace(Arc::new(set));
        wrong.map_or(Ok(()), Err)
    }

    /// What they say now.
    pub fn now(&self) -> Arc<Set> {
        Arc::clone(&self.set.borrow())
    }

    /// What they say, followed.
    pub fn follow(&self) -> watch::Receiver<Arc<Set>> {
        self.set.subscribe()
    }
}

fn of(files: &BTreeMap<PathBuf, Loaded>) -> Result<Set> {
    Set::of(&files.values().cloned().collect::<Vec<_>>())
}

/// The files that are named, and those of folders, each once.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() { found.extend(in_folder(path)?) } else { found.push(path.clone()) }
    }
    if found.len() > FILES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, format!("there can be {FILES_MAX} job files at most")));
    }
    Ok(found)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let about = |error: std::io::Error| Error::from(error).context(folder.display());
    let entries = std::fs::read_dir(folder).map_err(about)?;
    let paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>().map_err(about)?;
    // A name that begins with a dot is one of an editor.
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.ends_with(b".toml") && !name.starts_with(b".") && path.is_file()
    };
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_ours).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> String {
        format!("[jobs.{name}]\nfrom = 'a'\nto = 'b'\n")
    }

    #[test]
    fn files_of_a_folder_come_and_go_and_what_is_broken_keeps_what_it_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writes");
        for (name, text) in [("b.toml", job("b")), ("a.toml", job("a")), (".c.toml", job("c")), ("d.txt", job("d"))] {
            write(name, &text);
        }
        let described = Described::read(vec![folder.path().to_owned()]).expect("reads");
        let names = || described.now().jobs.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(), ["a", "b"]);
        write("a.toml", "[jobs.a]\nfrom = 7\n");
        write("e.toml", &job("e"));
        let wrong = described.reload().expect_err("one is broken");
        assert!(wrong.message().contains("a.toml:2"), "{wrong}");
        assert_eq!(names(), ["a", "b", "e"]);
        std::fs::remove_file(folder.path().join("a.toml")).expect("removes");
        described.reload().expect("reads");
        assert_eq!(names(), ["b", "e"]);
        write("f.toml", &job("b"));
        assert!(described.reload().is_err());
        assert_eq!(names(), ["b", "e"], "what does not fit together changes nothing");
        write("f.toml", "nothing");
        assert!(Described::read(vec![folder.path().to_owned()]).is_err());
    }
}
