//! Trees of many files with sizes as in real trees: log-normal, most small, a few large.

use std::fs;
use std::io;
use std::path::Path;

use super::{Kind, bytes};
use crate::rng::Prng;

/// What tree to make.
#[derive(Clone, Copy, Debug)]
pub struct TreeSpec {
    /// Same seed, same tree.
    pub seed: u64,
    /// Files in it.
    pub files: usize,
    /// Mean size of a file; the total is exactly `files × mean_bytes`.
    pub mean_bytes: u64,
    /// Spread of the logarithm of the size. 1.5 gives a median of about a third of the mean.
    pub sigma: f64,
    /// Files and folders in a folder, at most.
    pub fan_out: usize,
    /// What the files hold.
    pub kind: Kind,
}

impl Default for TreeSpec {
    /// The tree of the project's space test: 10,000 files of 131,072 bytes on average.
    fn default() -> Self {
        Self { seed: 1, files: 10_000, mean_bytes: 131_072, sigma: 1.5, fan_out: 20, kind: Kind::SourceText }
    }
}

/// One file of a tree; its bytes are made on request.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// Path below the tree's root, with slashes.
    pub path: String,
    /// Size.
    pub size_bytes: u64,
    kind: Kind,
    seed: u64,
}

impl TreeFile {
    /// The file's bytes.
    pub fn content(&self) -> Vec<u8> {
        bytes(self.kind, self.seed, self.size_bytes as usize)
    }
}

impl TreeSpec {
    /// The files, in an order in which a folder's files follow each other.
    pub fn list(&self) -> Vec<TreeFile> {
        let mut rng = Prng::new(self.seed);
        let sizes = self.sizes(&mut rng);
        let file = |(number, size_bytes)| TreeFile {
            path: self.path(number),
            size_bytes,
            kind: self.kind,
            seed: rng.next_u64(),
        };
        sizes.into_iter().enumerate().map(file).collect()
    }

    /// Log-normal sizes, scaled so that they sum up exactly.
    fn sizes(&self, rng: &mut Prng) -> Vec<u64> {
        let raw: Vec<f64> = (0..self.files).map(|_| (self.sigma * rng.normal()).exp()).collect();
        let total = self.files as u64 * self.mean_bytes;
        let scale = total as f64 / raw.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_sign_loss, reason = "exp() is positive")]
        let mut sizes: Vec<u64> = raw.iter().map(|size| (size * scale) as u64).collect();
        let rounded_off = total - sizes.iter().sum::<u64>().min(total);
        if let Some(last) = sizes.last_mut() {
            *last += rounded_off;
        }
        sizes
    }

    /// Number `n` in base `fan_out`, a folder for each digit but the last.
    fn path(&self, number: usize) -> String {
        let mut digits = vec![number % self.fan_out];
        let mut rest = number / self.fan_out;
        while rest > 0 {
            digits.push(rest % self.fan_out);
            rest /= self.fan_out;
        }
        let folders = digits[1..].iter().rev();
        let mut parts: Vec<String> = folders.map(|d| format!("folder{d:02}")).collect();
        parts.push(format!("file{:02}.c", digits[0]));
        parts.join("/")
    }
}

/// Writes a tree below `root`.
pub fn write_tree(spec: &TreeSpec, root: &Path) -> io::Result<()> {
    for file in spec.list() {
        let path = root.join(&file.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, file.content())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_asked_files_mean_and_spread() {
        let files = TreeSpec::default().list();
        assert_eq!(files.len(), 10_000);
        let total: u64 = files.iter().map(|f| f.size_bytes).sum();
        assert_eq!(total, 10_000 * 131_072);
        let mut sizes: Vec<u64> = files.iter().map(|f| f.size_bytes).collect();
        sizes.sort_unstable();
        assert!((30_000..60_000).contains(&sizes[5000]), "{}", sizes[5000]);
        let paths: std::collections::BTreeSet<_> = files.iter().map(|f| &f.path).collect();
        assert_eq!(paths.len(), 10_000);
    }
}
