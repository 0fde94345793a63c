//! Real text: the source code and documentation found on this machine, one file after the other as in an archive.
//!
//! Files are taken in the order of their names, so the same machine gives the same text. A file counts as text when
//! its first bytes hold no NUL. When the folders hold less than is asked for, the text repeats from its start (at
//! distances no level-1 compressor looks back over); when they hold less than [`ENOUGH_BYTES`], the rest is generated, and the origin says so.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes looked at to tell text from other files.
const PROBE_BYTES: usize = 8192;
/// Larger files are tables and dumps rather than text someone wrote.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// With at least this much distinct text it repeats instead of being filled up by the generator.
const ENOUGH_BYTES: u64 = 64 << 20;
/// Deepest folder looked into.
const MAX_DEPTH: usize = 24;

/// Folders that hold text on most Linux machines.
pub(crate) fn default_sources() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["/usr/include", "/usr/src", "/usr/share/doc", "/usr/share/perl", "/usr/share/perl5", "/usr/local/include"]
            .iter()
            .map(PathBuf::from)
            .collect();
    for parent in ["/usr/lib", "/usr/local/lib"] {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        found.extend(
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3")).map(|e| e.path()),
        );
    }
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// What was written.
pub(super) struct Made {
    pub(super) distinct_bytes: u64,
    pub(super) synthetic_bytes: u64,
}

/// Writes exactly `bytes` bytes of text to `file`, which is open at `path`.
pub(super) fn write(file: &mut File, path: &Path, sources: &[PathBuf], seed: u64, bytes: u64) -> io::Result<Made> {
    let mut out = Limited { inner: BufWriter::with_capacity(1 << 20, file), left: bytes };
    for source in sources {
        add_folder(&mut out, source, 0)?;
        if out.left == 0 {
            break;
        }
    }
    let real_bytes = bytes - out.left;
    if out.left == 0 || real_bytes >= ENOUGH_BYTES {
        out.inner.flush()?;
        repeat(&mut out, path, real_bytes)?;
        out.inner.flush()?;
        return Ok(Made { distinct_bytes: real_bytes, synthetic_bytes: 0 });
    }
    let mut number = 0;
    while out.left > 0 {
        out.write(synthetic_function(seed, number).as_bytes())?;
        number += 1;
    }
    out.inner.flush()?;
    Ok(Made { distinct_bytes: bytes, synthetic_bytes: bytes - real_bytes })
}

/// A writer that takes no more than it has room for.
struct Limited<W: Write> {
    inner: W,
    left: u64,
}

impl<W: Write> Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.inner.write_all(&bytes[..count])?;
        self.left -= count as u64;
        Ok(())
    }
}

fn add_folder<W: Write>(out: &mut Limited<W>, folder: &Path, depth: usize) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() && depth < MAX_DEPTH {
            add_folder(out, &path, depth + 1)?;
        } else if metadata.is_file()
            && (1..=MAX_FILE_BYTES).contains(&metadata.len())
            && let Some(content) = read_text(&path)
        {
            out.write(format!("\n==> {} {} <==\n", path.display(), content.len()).as_bytes())?;
            out.write(&content)?;
        }
        if out.left == 0 {
            break;
        }
    }
    Ok(())
}

fn read_text(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let mut content = vec![0; PROBE_BYTES];
    let mut filled = 0;
    while filled < content.len() {
        match file.read(&mut content[filled..]).ok()? {
            0 => break,
            count => filled += count,
        }
    }
    content.truncate(filled);
    if content.contains(&0) {
        return None;
    }
    file.take(MAX_FILE_BYTES).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Fills what is left with the text from its start on.
fn repeat<W: Write>(out: &mut Limited<W>, path: &Path, distinct_bytes: u64) -> io::Result<()> {
    if out.left == 0 || distinct_bytes == 0 {
        return Ok(());
    }
    let reader = File::open(path)?;
    let mut piece = vec![0; 1 << 20];
    let mut position = 0;
    while out.left > 0 {
        let want = usize::try_from(distinct_bytes - position).unwrap_or(usize::MAX).min(piece.len());
        reader.read_exact_at(&mut piece[..want], position)?;
        out.write(&piece[..want])?;
        position = (position + want as u64) % distinct_bytes;
    }
    Ok(())
}

/// A function in a C-like language with names and numbers drawn from the seed: compresses about as well as source.
fn synthetic_function(seed: u64, number: u64) -> String {
    const WORDS: [&str; 24] = [
        "buffer", "length", "offset", "handle", "status", "result", "context", "entry", "parent", "index", "record",
        "table", "open", "close", "read", "write", "insert", "remove", "lookup", "flush", "lock", "release", "compare",
        "allocate",
    ];
    let draw = |salt: u64| super::mix(seed ^ super::mix(number.wrapping_mul(64) + salt));
    let word = |salt: u64| WORDS[usize::try_from(draw(salt) % WORDS.len() as u64).unwrap_or(0)];
    let (verb, noun) = (word(1), word(2));
    let mut text = format!(
        "/* {verb} the {noun} of a {} */\nstatic int {noun}_{verb}_{number}(struct {noun} *{noun})\n{{\n",
        word(3)
    );
    for line in 0..draw(4) % 9 + 2 {
        let salt = 8 + line * 4;
        let (left, right, value) = (word(salt), word(salt + 1), draw(salt + 2) % 65_536);
        let statement = match draw(salt + 3) % 4 {
            0 => format!("\tif ({noun}->{left} > {value}) {{\n\t\treturn -{right}_error({noun}, {value:#x});\n\t}}\n"),
            1 => format!("\t{noun}->{left} = {noun}->{right} + {value};\n"),
            2 => format!("\tfor (size_t i = 0; i < {noun}->{left}; i++)\n\t\t{right}_{verb}(&{noun}->{right}[i]);\n"),
            _ => format!("\t{left}_{right}({noun}, \"{right} {value}\");\n"),
        };
        text.push_str(&statement);
    }
    text.push_str("\treturn 0;\n}\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sources: &[PathBuf], bytes: u64) -> io::Result<(Vec<u8>, Made)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        let made = write(&mut File::create(&path)?, &path, sources, 3, bytes)?;
        Ok((fs::read(&path)?, made))
    }

    #[test]
    fn text_files_are_taken_in_order_and_others_are_left_out() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("b.c"), "second")?;
        fs::write(folder.path().join("a.c"), "first")?;
        fs::write(folder.path().join("c.o"), b"\x7fELF\0\0")?;
        let (content, made) = written(&[folder.path().to_owned()], 4096)?;
        let content = String::from_utf8_lossy(&content);
        let (first, second) = (content.find("first"), content.find("second"));
        assert!(first.is_some() && first < second);
        assert!(!content.contains("ELF"));
        assert_eq!(content.len(), 4096);
        assert!((3900..4096).contains(&made.synthetic_bytes), "{}", made.synthetic_bytes);
        Ok(())
    }

    #[test]
    fn without_any_source_the_text_is_generated_and_compresses_like_source() -> io::Result<()> {
        let (content, made) = written(&[], 100_000)?;
        assert_eq!((content.len(), made.synthetic_bytes), (100_000, 100_000));
        assert!(content.iter().all(|&byte| byte == b'\n' || byte == b'\t' || (32..127).contains(&byte)));
        Ok(())
    }

    #[test]
    fn enough_text_is_cut_to_the_exact_size() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("a"), "x".repeat(5000))?;
        let (content, made) = written(&[folder.path().to_owned()], 1000)?;
        assert_eq!((content.len(), made.distinct_bytes, made.synthetic_bytes), (1000, 1000, 0));
        Ok(())
    }
}
