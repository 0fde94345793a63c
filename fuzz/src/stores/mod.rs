//! Addresses of stores, and the lists that object services answer.

use holdfast_blob::url::StoreUrl;
use holdfast_blob::{s3, swift};

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 3] = [("s3_list", s3_list), ("store_url", store_url), ("swift_list", swift_list)];

/// An address is refused with a reason or understood; no secret is taken from one, and none is repeated.
pub fn store_url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match StoreUrl::parse(text) {
        Err(error) => assert!(error.message().len() > "the address of the store: ".len()),
        Ok(url) => {
            assert!(text.starts_with(url.kind()) && text.as_bytes()[url.kind().len()] == b':');
            if url.kind() != "fs" {
                let separator = if text.contains('?') { '&' } else { '?' };
                let secret = format!("{text}{separator}password=xyzzy-hunter2");
                let error = StoreUrl::parse(&secret).expect_err("no address holds a secret");
                assert!(!error.message().contains("xyzzy-hunter2"), "{error}");
            }
        }
    }
}

/// A list of S3: never longer than what it was read from.
pub fn s3_list(data: &[u8]) {
    if let Ok(page) = s3::parse_list(data) {
        let bytes: usize = page.entries.iter().map(|entry| entry.key.len()).sum();
        // A reference such as &#x10ffff; is longer than the four bytes it stands for, and an object has two elements.
        assert!(bytes <= data.len() && page.entries.len() * 40 <= data.len());
    }
}

/// A list of Swift: as above, and the same when it is written anew.
pub fn swift_list(data: &[u8]) {
    let Some((limit, json)) = data.split_first() else { return };
    let Ok(page) = swift::parse_list(json, usize::from(*limit)) else { return };
    assert_eq!(page.more, page.entries.len() >= usize::from(*limit));
    let quoted = |key: &str| {
        let escaped = key.chars().map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    let entries: Vec<String> = page
        .entries
        .iter()
        .map(|entry| format!("{{\"bytes\": {}, \"name\": {}}}", entry.bytes, quoted(&entry.key)))
        .collect();
    let again = swift::parse_list(format!("[{}]", entries.join(",")).as_bytes(), usize::from(*limit));
    assert_eq!(again.expect("a list reads back"), page);
}
