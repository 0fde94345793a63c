//! What a session is called in the list of devices: browser, system and address, as far as the browser says.

use http::HeaderMap;
use http::header::USER_AGENT;
use std::net::IpAddr;

/// By the word a browser has in its `User-Agent`. Many name several; the first here that occurs is the one it is.
const BROWSERS: [(&str, &str); 7] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

/// In the same way.
const SYSTEMS: [(&str, &str); 7] = [
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// The label: made of our own words and the address, so it is short and harmless whatever was sent.
pub(crate) fn label(headers: &HeaderMap, address: IpAddr) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let find =
        |words: &[(&str, &'static str)]| words.iter().find(|(word, _)| agent.contains(word)).map(|(_, name)| *name);
    let browser = find(&BROWSERS).unwrap_or("A browser");
    match find(&SYSTEMS) {
        Some(system) => format!("{browser} on {system}, {address}"),
        None => format!("{browser}, {address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_told_apart_and_hostile_text_is_not_repeated() {
        let of = |agent: &str| {
            let headers = std::iter::once((USER_AGENT, agent.parse().expect("a value"))).collect();
            label(&headers, [192, 0, 2, 7].into())
        };
        let chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36";
        assert_eq!(of(chrome), "Chrome on Windows, 192.0.2.7");
        assert_eq!(of(&format!("{chrome} Edg/120.0")), "Edge on Windows, 192.0.2.7");
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        assert_eq!(of(firefox), "Firefox on Linux, 192.0.2.7");
        assert_eq!(of("<script>"), "A browser, 192.0.2.7");
    }
}
