//! Searches a whole folder for bytes that must not be there.
//!
//! The secrecy test: store a corpus, then look for its contents, passwords and keys in everything
//! the server wrote. Files are streamed through one automaton, so memory does not grow with their
//! size. Limits: a secret that was compressed or encrypted is not found (that is the point), one in
//! an encoding not listed at [`Needles::add_encoded`] is not found either.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Findings after which a scan stops: one is a failure, a hundred tell where it comes from.
const MAX_FINDINGS: usize = 100;
/// Shortest needle: shorter ones turn up in random bytes by chance. Eight bytes meet by chance in
/// 1 GiB of random data once in 2^34 tries.
const MIN_NEEDLE_BYTES: usize = 8;

/// Byte strings to look for.
#[derive(Debug, Default)]
pub struct Needles {
    labels: Vec<String>,
    patterns: Vec<Vec<u8>>,
}

/// A needle that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which needle.
    pub label: String,
    /// In which file.
    pub path: PathBuf,
    /// Where in it; `None` when the path itself holds the needle.
    pub offset: Option<u64>,
}

impl Needles {
    /// Nothing to look for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for these bytes.
    ///
    /// # Panics
    /// When they are fewer than eight: such a needle proves nothing.
    pub fn add(&mut self, label: &str, needle: &[u8]) -> &mut Self {
        assert!(needle.len() >= MIN_NEEDLE_BYTES, "{label}: too short to look for");
        self.labels.push(label.to_owned());
        self.patterns.push(needle.to_vec());
        self
    }

    /// Looks for these bytes as they are, in hexadecimal (both cases) and in Base64 at each of the
    /// three alignments: what a log, a database or a configuration file would hold of a secret.
    pub fn add_encoded(&mut self, label: &str, needle: &[u8]) -> &mut Self {
        use std::fmt::Write as _;
        self.add(label, needle);
        let mut hex = String::new();
        for byte in needle {
            write!(hex, "{byte:02x}").expect("a string takes everything");
        }
        self.add(&format!("{label} (hex)"), hex.as_bytes());
        self.add(&format!("{label} (hex)"), hex.to_uppercase().as_bytes());
        for skip in 0..3 {
            // Whole groups of three bytes look the same wherever they stand.
            let whole = needle.len().saturating_sub(skip) / 3 * 3;
            let text = STANDARD_NO_PAD.encode(&needle[skip.min(needle.len())..][..whole]);
            if text.len() >= MIN_NEEDLE_BYTES {
                self.add(&format!("{label} (base64)"), text.as_bytes());
            }
        }
        self
    }

    /// Looks for `count` pieces of 16 bytes, spread over a content.
    pub fn add_samples(&mut self, label: &str, content: &[u8], count: usize) -> &mut Self {
        const SAMPLE_BYTES: usize = 16;
        let room = content.len().saturating_sub(SAMPLE_BYTES);
        for number in 0..count.min(room + 1).min(content.len()) {
            let at = room * number / count.max(1);
            let end = (at + SAMPLE_BYTES).min(content.len());
            if end - at >= MIN_NEEDLE_BYTES {
                self.add(&format!("{label} at {at}"), &content[at..end]);
            }
        }
        self
    }

    /// Searches every file below `root`, and every path, without following symbolic links.
    pub fn scan(&self, root: &Path) -> io::Result<Vec<Finding>> {
        let automaton = AhoCorasick::new(&self.patterns).map_err(io::Error::other)?;
        let mut findings = Vec::new();
        let mut to_visit = vec![root.to_owned()];
        while let Some(path) = to_visit.pop() {
            if findings.len() >= MAX_FINDINGS {
                break;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path);
            for hit in automaton.find_iter(relative.as_os_str().as_encoded_bytes()) {
                findings.push(self.finding(hit.pattern().as_usize(), &path, None));
            }
            match self.look_into(&path, &automaton, &mut to_visit, &mut findings) {
                // A program that runs takes files away.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path != root => {}
                looked => looked?,
            }
        }
        Ok(findings)
    }

    /// The needles in these bytes, each once for every place.
    pub fn find_in(&self, bytes: &[u8]) -> io::Result<Vec<&str>> {
        let automaton = AhoCorasick::new(&self.patterns).map_err(io::Error::other)?;
        Ok(automaton.find_iter(bytes).map(|hit| self.labels[hit.pattern().as_usize()].as_str()).collect())
    }

    fn look_into(
        &self,
        path: &Path,
        automaton: &AhoCorasick,
        to_visit: &mut Vec<PathBuf>,
        findings: &mut Vec<Finding>,
    ) -> io::Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(path)? {
                to_visit.push(entry?.path());
            }
        } else if kind.is_file() {
            for hit in automaton.stream_find_iter(File::open(path)?).take(MAX_FINDINGS) {
                let hit = hit?;
                findings.push(self.finding(hit.pattern().as_usize(), path, Some(hit.start() as u64)));
            }
        }
        Ok(())
    }

    fn finding(&self, needle: usize, path: &Path, offset: Option<u64>) -> Finding {
        Finding { label: self.labels[needle].clone(), path: path.to_owned(), offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::incompressible;

    #[test]
    fn a_secret_is_found_wherever_it_stands_and_however_it_is_written() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let secret = b"correct horse battery";
        let mut needles = Needles::new();
        needles.add_encoded("password", secret);
        let mut big = incompressible(1, 3 << 20);
        fs::create_dir(dir.path().join("sub"))?;
        fs::write(dir.path().join("sub/big"), &big)?;
        assert_eq!(needles.scan(dir.path())?, []);

        // Across the border of any buffer of a power of two.
        let at = (1 << 20) - 7;
        big[at..at + secret.len()].copy_from_slice(secret);
        fs::write(dir.path().join("sub/big"), &big)?;
        fs::write(dir.path().join("log"), STANDARD_NO_PAD.encode(b"xcorrect horse battery"))?;
        fs::write(dir.path().join("correct horse battery"), b"")?;
        let found = needles.scan(dir.path())?;
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|f| f.offset == Some(at as u64)));
        Ok(())
    }

    #[test]
    fn samples_of_a_content_find_a_part_of_it() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let content = incompressible(2, 100_000);
        let mut needles = Needles::new();
        needles.add_samples("corpus", &content, 20);
        fs::write(dir.path().join("part"), &content[40_000..60_000])?;
        let found = needles.scan(dir.path())?;
        assert!((3..=5).contains(&found.len()), "{found:?}");
        Ok(())
    }
}
