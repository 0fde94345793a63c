//! Passwords: which are accepted, and how one is made up.
//!
//! In the manner of NIST SP 800-63B section 3.1.1: a minimum length, a generous maximum, no rules about kinds of characters,
//! and an estimate of how many guesses it takes (zxcvbn), which knows common passwords, names, dates, keyboard rows, the account's
//! own name and the words of this program. A password is compared byte for byte, without Unicode normalisation.

use crate::token::TOKEN_PREFIX;
use crate::{Secret, base32};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_seal::keys::random_bytes;
use zxcvbn::{Score, feedback::Feedback, zxcvbn};

/// Fewest characters: below ten, even random letters fall to a stolen catalogue and patience.
pub const PASSWORD_CHARS_MIN: usize = 10;

/// Most bytes: any sentence fits, and no request makes us hash a novel.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// Words an attacker of this drive tries first.
const DRIVE_WORDS: [&str; 8] =
    ["holdfast", "drive", "webdav", "admin", "administrator", "password", "cloud", "storage"];

/// What a message about a weak password ends with.
const ADVICE: &str = "Four or five words chosen at random make a good one. It need not, and should not, be a password you \
                      use elsewhere, such as your organisation's";

/// Accepts a password for the account `name`, or says what to do.
pub fn check_password(name: &str, password: &str) -> Result<()> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err(Error::invalid(format!(
            "the password is too short: it needs at least {PASSWORD_CHARS_MIN} characters. {ADVICE}"
        )));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!("the password is too long: it can have {PASSWORD_BYTES_MAX} bytes at most");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    if password.chars().any(char::is_control) {
        return Err(Error::invalid("the password has a line break or another control character in it"));
    }
    if password.starts_with(TOKEN_PREFIX) {
        return Err(Error::invalid(format!("a password cannot begin with {TOKEN_PREFIX}: app tokens do")));
    }
    // A name such as a mail address is also given away in its parts.
    let parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| part.len() > 2);
    let words: Vec<&str> = DRIVE_WORDS.into_iter().chain([name]).chain(parts).collect();
    if password.to_lowercase().replace(&name.to_lowercase(), "").chars().count() < PASSWORD_CHARS_MIN / 2 {
        return Err(Error::invalid(format!("the password is little more than the account's name. {ADVICE}")));
    }
    let estimate = zxcvbn(password, &words);
    if estimate.score() < Score::Three {
        let why = estimate.feedback().map(explain).unwrap_or_default();
        return Err(Error::invalid(format!("the password is too easy to guess.{why} {ADVICE}")));
    }
    Ok(())
}

/// zxcvbn's warning and suggestions as sentences.
fn explain(feedback: &Feedback) -> String {
    let warning = feedback.warning().map(|warning| warning.to_string());
    let suggestions = feedback.suggestions().iter().map(ToString::to_string);
    let sentence = |text: String| format!(" {}.", text.trim_end_matches('.'));
    warning.into_iter().chain(suggestions).map(sentence).collect()
}

/// Makes up a password of 100 random bits: five groups of four letters and digits, none of which look alike.
pub fn generate_password() -> Result<Secret> {
    // 13 bytes are 21 symbols; 20 of them are used.
    let symbols = base32::encode(&zeroize::Zeroizing::new(random_bytes::<13>()?)[..]);
    let mut text = String::with_capacity(24);
    for (at, symbol) in symbols.chars().take(20).enumerate() {
        if at > 0 && at % 4 == 0 {
            text.push('-');
        }
        text.push(symbol);
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, password: &str) -> String {
        check_password(name, password).expect_err("must be refused").message().to_owned()
    }

    #[test]
    fn weak_passwords_are_refused_with_what_to_do() {
        assert!(refusal("ann", "short").contains("at least 10 characters"));
        assert!(refusal("ann", "password123").contains("too easy to guess"));
        assert!(refusal("ann", "qwertyuiop").contains("organisation"));
        assert!(refusal("ann", "holdfastdrive").contains("too easy"));
        assert!(refusal("ann", "aaaaaaaaaaaaaaaa").contains("too easy"));
        assert!(refusal("ann", "line\nbreak in the middle").contains("line break"));
        assert!(refusal("ann", "hf_whatever-this-might-be").contains("app tokens"));
    }

    #[test]
    fn the_accounts_name_is_no_password() {
        assert!(refusal("rosalind.franklin", "Rosalind.Franklin").contains("the account's name"));
        assert!(refusal("rosalind.franklin", "rosalind.franklin1").contains("the account's name"));
        assert!(refusal("rosalind.franklin@kings", "rosalindfranklin").contains("too easy"));
    }

    #[test]
    fn good_passwords_are_accepted() {
        for password in ["correct horse battery staple", "vF9#kq2Lw!x", "pärlor åt svinen igår kväll"] {
            check_password("ann", password).expect(password);
        }
    }

    #[test]
    fn the_longest_password_is_checked_in_bounded_work() {
        check_password("ann", &"k7#Qz".repeat(204)).expect_err("a repetition");
        assert_eq!(check_password("ann", &"x".repeat(1_025)).expect_err("long").kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn a_generated_password_is_typeable_accepted_and_never_the_same() {
        let (one, two) = (generate_password().expect("generate"), generate_password().expect("generate"));
        assert_ne!(one, two);
        assert_eq!(one.expose().split('-').map(str::len).collect::<Vec<_>>(), [4; 5]);
        check_password("ann", one.expose()).expect("accepted");
    }
}
