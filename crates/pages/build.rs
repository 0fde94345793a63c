//! Writes the table of embedded files: every file below `web/dist` that is not the compressed sibling of another, with those siblings.
//! Without that folder the table is empty, and the program says how to build the pages.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../web/dist");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if root.join("index.html").is_file() {
        // A folder that is not there would have this run at every build; what makes it touches this file.
        println!("cargo::rerun-if-changed={}", root.display());
        gather(&root, &mut files);
        files.sort();
    }
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&root).expect("is below").to_str().expect("names are UTF-8").replace('\\', "/");
        let sibling = |ending: &str| {
            let path = PathBuf::from(format!("{}.{ending}", file.display()));
            path.is_file().then(|| format!("Some(include_bytes!({:?}))", path.display().to_string()))
        };
        let [brotli, gzip] = ["br", "gz"].map(|ending| sibling(ending).unwrap_or_else(|| "None".into()));
        let plain = format!("include_bytes!({:?})", file.display().to_string());
        writeln!(
            table,
            "    Asset {{ path: {:?}, plain: {plain}, brotli: {brotli}, gzip: {gzip} }},",
            format!("/{name}")
        )
        .expect("a String takes everything");
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("assets.rs");
    fs::write(out, table).expect("the table can be written");
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("web/dist can be read") {
        let path = entry.expect("web/dist can be read").path();
        if path.is_dir() {
            gather(&path, files);
        } else if !is_sibling(&path) {
            files.push(path);
        }
    }
}

/// Whether it is the compressed form of a file that is there.
fn is_sibling(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "br" || ending == "gz") && path.with_extension("").is_file()
}
