//! What people and programs present to be let in.

use holdfast_auth::{Credential, EscrowKey, PASSWORD_BYTES_MAX, RecoveryCode, Token, check_password};

/// One text, as an `Authorization` header, a token, a recovery code and an escrow key.
pub fn credentials(data: &[u8]) {
    if let Ok(credential) = Credential::from_authorization(data) {
        let secret = credential.secret().expose();
        assert!(secret.len() <= data.len());
        assert_eq!(format!("{:?}", credential.secret()), "Secret(…)");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(token) = Token::parse(text) {
        let again = Token::parse(token.text().expose()).expect("reads what was written");
        assert_eq!((again.lookup(), again.secret()), (token.lookup(), token.secret()));
    }
    if let Ok(code) = RecoveryCode::parse(text) {
        assert_eq!(RecoveryCode::parse(code.text().expose()).expect("reads what was written").secret(), code.secret());
    }
    if let Ok(key) = EscrowKey::parse(text) {
        assert!(EscrowKey::parse_public(text).is_err(), "both parts cannot look alike");
        assert_eq!(
            EscrowKey::parse(key.text().expose()).expect("reads what was written").public_text(),
            key.public_text()
        );
    }
    let _ = EscrowKey::parse_public(text);
}

/// A name, a line feed, and the password somebody chose: estimating its strength is the slowest thing done with a text.
pub fn password(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (name, password) = text.split_once('\n').unwrap_or(("", text));
    if check_password(name, password).is_ok() {
        assert!(password.len() <= PASSWORD_BYTES_MAX && password != name);
    }
}
