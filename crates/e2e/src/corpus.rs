//! Files to store and to look for: every way content takes through the program is in it.

use holdfast_testkit::data::{incompressible, source_text};
use holdfast_testkit::http::Client;

use crate::Outcome;

/// One file.
#[derive(Clone, Debug)]
pub struct CorpusFile {
    /// Its path on the server.
    pub path: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// Uploads tiny files (which lie in the catalogue), files of a block and of several, text and random bytes, and equal blocks.
pub fn store(client: &mut Client, folder: &str) -> Outcome<Vec<CorpusFile>> {
    client.mkcol(folder)?.expect_status(201)?;
    let mut files: Vec<CorpusFile> = Vec::new();
    let mut add = |name: &str, content: Vec<u8>| files.push(CorpusFile { path: format!("{folder}/{name}"), content });
    for (seed, bytes) in [40, 700, 4000].into_iter().enumerate() {
        add(&format!("tiny-text-{bytes}"), source_text(seed as u64, bytes));
        add(&format!("tiny-random-{bytes}"), incompressible(seed as u64, bytes));
    }
    add("one-block-text", source_text(11, 900_000));
    add("one-block-random", incompressible(12, 300_000));
    add("blocks-text", source_text(13, 3_000_000));
    add("blocks-random", incompressible(14, 2_500_000));
    add("the-same-again", incompressible(14, 2_500_000));
    for file in &files {
        client.put(&file.path, file.content.clone())?.expect_status(201)?;
    }
    Ok(files)
}
