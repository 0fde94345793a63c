//! What the documents point to is there.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn documents(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) =
        (vec![root.join("README.md"), root.join("ARCHITECTURE.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Names of a document's headings, as links have them.
fn headings(text: &str) -> HashSet<String> {
    let name = |heading: &str| {
        let letters = heading.trim().to_lowercase();
        let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    lines.map(|line| name(line.trim_start_matches('#'))).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut links, mut broken) = (0, Vec::new());
    for document in documents(&root) {
        let text = fs::read_to_string(&document).expect("text");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next()) {
            if link.contains(':') {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { document.clone() } else { document.with_file_name("").join(file) };
            let is_there = if heading.is_empty() {
                to.exists()
            } else {
                fs::read_to_string(&to).is_ok_and(|text| headings(&text).contains(heading))
            };
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(links > 100, "{links} links");
    assert!(broken.is_empty(), "{broken:#?}");
}
