//! Who somebody is: passkeys, tickets, providers.

use super::parts;
use holdfast_auth::fuzzed::{cose, open_ticket, passkey_answer, seal_ticket};
use holdfast_auth::passkey::RelyingParty;
use holdfast_oidc::GROUPS_MAX;
use holdfast_oidc::fuzzed::{person, published, token};

/// A ticket, client data and authenticator data; the last also as a public key.
pub fn passkeys(data: &[u8]) {
    let [ticket, client, authenticator] = parts(data);
    let (is_key, first) = cose(authenticator);
    assert!(first.is_none_or(|bytes| bytes <= authenticator.len()));
    assert!(!is_key || first == Some(authenticator.len()), "a key ends where it ends");
    let Ok(ticket) = std::str::from_utf8(ticket) else { return };
    for origin in ["https://drive.example", ticket] {
        let Some(party) = RelyingParty::of_origin(origin) else { continue };
        assert!(!party.id.contains(['/', ':', '@']));
        let fits = passkey_answer(&party, "ticket", client, authenticator);
        assert!(!(fits && passkey_answer(&party, "another", client, authenticator)), "it answers two questions");
    }
}

/// A ticket that nobody made, and one whose text is this.
pub fn tickets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(open_ticket(text, 0).is_none(), "nobody sealed it");
    let Some(sealed) = seal_ticket(text, 10) else { return };
    assert_eq!(open_ticket(&sealed, 9).as_deref(), Some(text));
    assert!(open_ticket(&sealed, 10).is_none(), "it has expired");
    let at = data.len() % sealed.len();
    let mut changed = sealed.into_bytes();
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).expect("is ASCII");
    assert!(open_ticket(&changed, 9).is_none(), "it was changed");
}

/// What a provider publishes, its keys, and a token; the last also as claims.
pub fn oidc(data: &[u8]) {
    let [document, keys, text] = parts(data);
    let _ = published("https://id.example", document);
    let token = std::str::from_utf8(text).ok().and_then(|text| token(keys, text, 1_000_000));
    for person in [token, person(text)].into_iter().flatten() {
        assert!(person.groups.len() <= GROUPS_MAX && !person.subject.is_empty());
        assert!(!person.label.contains(char::is_control) && person.name.as_ref().is_none_or(|name| !name.is_empty()));
        assert!(person.domain().is_none_or(|domain| !domain.contains('@')));
    }
}
