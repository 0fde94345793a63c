//! Addresses of places and links, cookies, and words that are looked for.

use super::{parts, value};
use holdfast_api::{cookie, fuzzed::flow_cookie};
use holdfast_auth::{Token, fuzzed::visit_secret};
use holdfast_base::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX};
use holdfast_base::{NodeName, Uid};
use holdfast_http::{place, push_segment};
use holdfast_meta::fuzzed::{folded, has, indexed, tag};
use http::{HeaderMap, header::COOKIE};

/// The path of a URL below the API or a page.
pub fn places(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(Some((space, path))) = place(text) else { return };
    assert!(path.names().len() <= PATH_DEPTH_MAX && path.to_string().len() <= PATH_BYTES_MAX + 1);
    let names = path.names().iter().map(NodeName::as_str);
    let mut written = String::new();
    for name in std::iter::once(space.as_str()).chain(names) {
        assert!(!name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']));
        written.push('/');
        push_segment(&mut written, name);
    }
    let again = place(&written).expect("reads what was written");
    assert_eq!(again, Some((space, path)));
}

/// A link's name, and headers `Cookie`, one a line.
pub fn cookies(data: &[u8]) {
    let [link, cookies] = parts(data);
    let link = std::str::from_utf8(link).ok().and_then(|text| text.parse::<Uid>().ok());
    let mut headers = HeaderMap::new();
    for line in cookies.split(|byte| *byte == b'\n').take(32) {
        if let Some(value) = value(line) {
            headers.append(COOKIE, value);
        }
    }
    for encrypted in [true, false] {
        let session = cookie::read(&headers, encrypted);
        if let Some(token) = session.as_ref().and_then(|secret| Token::parse_session(secret.expose())) {
            assert!(visit_secret(token.text().expose()).is_none(), "a session is no visit");
            assert!(Token::parse(token.text().expose()).is_none(), "nor a token");
        }
        let visit = link.and_then(|link| cookie::read_link(&headers, encrypted, link));
        if let Some(token) = visit.as_ref().and_then(|secret| visit_secret(secret.expose())) {
            assert!(Token::parse_session(token.text().expose()).is_none(), "a visit is no session");
        }
        for secret in [session, visit, flow_cookie(&headers, encrypted)].into_iter().flatten() {
            assert!(!secret.expose().is_empty() && !secret.expose().contains([';', '\n']));
        }
    }
}

/// A name and a query.
pub fn words(data: &[u8]) {
    let [name, query] = parts(data);
    let (Ok(name), Ok(query)) = (std::str::from_utf8(name), std::str::from_utf8(query)) else { return };
    let (text, rests) = folded(name);
    assert!(has(name, "") && rests.len() <= 48);
    for rest in &rests {
        assert!(rest.len() <= 48 && text.contains(rest.as_str()), "{rest:?} of {text:?}");
        assert!(has(name, rest), "{rest:?} is not found in {name:?}");
    }
    for word in query.split_whitespace().take(16) {
        let (word, _) = folded(word);
        let _ = has(name, &word);
        assert!(word.starts_with(indexed(&word)));
    }
    let once = tag(query);
    assert_eq!(tag(&once), once, "a tag that was folded is folded");
}
