//! What a provider says of somebody, cut to what is used.

use crate::token::Claims;
use holdfast_base::{Error, Result};
use serde_json::Value;

/// Groups that are looked at; more are not.
pub const GROUPS_MAX: usize = 1_000;

/// Longest text of a claim, in bytes; a subject has 255 by the specification.
const TEXT_BYTES_MAX: usize = 255;

/// Somebody, as a provider says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The provider's address.
    pub issuer: String,
    /// Who it is there; never given to anybody else.
    pub subject: String,
    /// The account's name, by the claim that is configured.
    pub name: Option<String>,
    /// What to show: mail address, name, or subject.
    pub label: String,
    /// The mail address, if the provider has verified it.
    pub mail: Option<String>,
    /// Groups, by the claim that is configured.
    pub groups: Vec<String>,
}

impl Person {
    pub(crate) fn of(claims: &Claims, issuer: &str, name_claim: &str, groups_claim: &str) -> Result<Self> {
        let text = |name: &str| {
            let text = claims.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty() && text.len() <= TEXT_BYTES_MAX).map(ToOwned::to_owned)
        };
        let subject = text("sub").ok_or_else(|| Error::forbidden("the provider does not say who it is"))?;
        let mail = text("email").filter(|_| claims.get("email_verified").is_some_and(says_yes));
        let shown =
            mail.clone().or_else(|| text("name")).or_else(|| text(name_claim)).unwrap_or_else(|| subject.clone());
        let groups = match claims.get(groups_claim) {
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).take(GROUPS_MAX).map(ToOwned::to_owned).collect()
            }
            Some(Value::String(one)) => vec![one.clone()],
            _ => Vec::new(),
        };
        let label = shown.chars().filter(|letter| !letter.is_control()).collect();
        Ok(Self { issuer: issuer.to_owned(), subject, name: text(name_claim), label, mail, groups })
    }

    /// The part of the verified mail address after the sign.
    pub fn domain(&self) -> Option<&str> {
        self.mail.as_deref().and_then(|mail| mail.rsplit_once('@')).map(|(_, domain)| domain)
    }
}

/// Some providers write truth as text.
fn says_yes(value: &Value) -> bool {
    value.as_bool() == Some(true) || value.as_str() == Some("true")
}
