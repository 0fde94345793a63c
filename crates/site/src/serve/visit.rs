//! What lets a visitor in, signed with the site's own key, so that any node that serves the site knows it again.
//!
//! A token is `KIND.ENDS.WHAT.MAC`: when it ends in seconds since 1970, what it is for, and a keyed BLAKE3 over these. A new key
//! in the site's settings voids them all. Cookies are for the site's own host and path, not readable by scripts.

use http::HeaderMap;
use http::header::COOKIE;

/// Cookie of somebody who typed the site's password.
pub(crate) const VISIT_COOKIE: &str = "holdfast-visit";
/// Cookie of somebody with a preview link.
pub(crate) const PREVIEW_COOKIE: &str = "holdfast-preview";
/// Below here are a site's own doors.
pub(crate) const DOORS: &str = "/.holdfast/";

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Visit,
    Preview,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Visit => "visit",
            Self::Preview => "preview",
        }
    }
}

fn mac(key: &[u8; 32], kind: Kind, ends_s: i64, what: &str) -> blake3::Hash {
    blake3::keyed_hash(key, format!("holdfast site {} {ends_s} {what}", kind.name()).as_bytes())
}

/// Makes a token. `what` has no dot.
pub(crate) fn sign(key: &[u8; 32], kind: Kind, what: &str, ends_s: i64) -> String {
    format!("{}.{ends_s}.{what}.{}", kind.name(), mac(key, kind, ends_s, what).to_hex())
}

/// What a token is for, if it is one of this key and kind and has not ended.
pub(crate) fn check<'a>(key: &[u8; 32], kind: Kind, token: &'a str, now_s: i64) -> Option<&'a str> {
    let mut parts = token.split('.');
    let (name, ends, what, sent) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let ends_s: i64 = ends.parse().ok()?;
    let sent = blake3::Hash::from_hex(sent).ok()?;
    // Comparing hashes of that type takes the same time wherever they differ.
    let right = parts.next().is_none() && name == kind.name() && sent == mac(key, kind, ends_s, what);
    (right && now_s < ends_s).then_some(what)
}

/// The path of a preview link in its site.
pub(crate) fn preview_path(key: &[u8; 32], snapshot: &str, ends_s: i64) -> String {
    format!("{DOORS}preview/{}", sign(key, Kind::Preview, snapshot, ends_s))
}

/// The cookies of a name; there may be several, of other paths.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(';')).filter_map(move |pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// A `Set-Cookie` value.
pub(crate) fn cookie(name: &str, value: &str, prefix: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path={prefix}/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [7; 32];

    #[test]
    fn a_token_is_good_for_its_kind_key_and_time_only() {
        let token = sign(&KEY, Kind::Visit, "x", 100);
        assert_eq!(check(&KEY, Kind::Visit, &token, 99), Some("x"));
        assert_eq!(check(&KEY, Kind::Visit, &token, 100), None);
        assert_eq!(check(&KEY, Kind::Preview, &token, 99), None);
        assert_eq!(check(&[8; 32], Kind::Visit, &token, 99), None);
        assert_eq!(check(&KEY, Kind::Visit, &token.replace(".100.", ".999."), 99), None);
        assert_eq!(check(&KEY, Kind::Visit, &format!("{token}.x"), 99), None);
    }

    #[test]
    fn cookies_are_found_among_others() {
        let headers = [(COOKIE, "a=1; v=one".parse().expect("a value")), (COOKIE, "v=two;x".parse().expect("a value"))];
        let headers: HeaderMap = headers.into_iter().fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        });
        assert_eq!(cookies(&headers, "v").collect::<Vec<_>>(), ["one", "two"]);
    }

    proptest! {
        #[test]
        fn nothing_made_up_is_let_in(token in "(visit|preview)?[.0-9a-f]{0,90}") {
            prop_assert_eq!(check(&KEY, Kind::Visit, &token, 0), None);
        }
    }
}
