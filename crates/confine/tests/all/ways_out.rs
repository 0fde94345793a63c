//! The page that says which test tries which way out.

use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/design/run-escapes.md");

/// Tests are named as `crate/file::test`; a file is one of `tests/all`, of `tests`, or of the crate itself.
#[test]
fn every_test_that_is_named_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in a folder");
    let (mut named, mut missing) = (0, Vec::new());
    for name in PAGE.split('`').skip(1).step_by(2).filter(|name| name.contains("::")) {
        let (file, test) = name.split_once("::").expect("it has both");
        // The one line that says what names look like.
        if file == "crate/file" {
            continue;
        }
        let (of, file) = file.split_once('/').expect("a crate and a file");
        let places = [format!("{of}/tests/all/{file}.rs"), format!("{of}/tests/{file}.rs"), format!("{of}/{file}.rs")];
        let source =
            places.iter().find_map(|place| std::fs::read_to_string(crates.join(place)).ok()).unwrap_or_default();
        let begins = source
            .lines()
            .zip(source.lines().skip(1))
            .any(|(before, line)| before.trim() == "#[test]" && line.trim().starts_with(&format!("fn {test}(")));
        named += 1;
        if !begins {
            missing.push(name);
        }
    }
    assert!(named > 80, "{named}");
    assert!(missing.is_empty(), "{missing:#?}");
}
