//! Providers whose people may sign in, and what each of them may and gets.

use holdfast_auth::{EscrowKey, Federated};
use holdfast_base::name::check_account_name;
use holdfast_base::{Error, Result};
use holdfast_meta::Role;
use holdfast_oidc::{Person, Provider};
use serde::{Deserialize, Serialize};

/// All of them.
#[derive(Debug, Default)]
pub struct Federation {
    /// In the order in which they are offered.
    pub providers: Vec<Trusted>,
    /// The operator's escrow key, if it is at hand: accounts are then opened without a passphrase.
    pub escrow: Option<EscrowKey>,
}

/// A provider with the rules of this drive.
#[derive(Debug)]
pub struct Trusted {
    /// Names it in addresses.
    pub id: String,
    /// What people know it as.
    pub name: String,
    /// How to speak to it.
    pub provider: Provider,
    /// Whether people who are new get an account.
    pub create: bool,
    /// Who may come in; nobody named is everybody it knows.
    pub allow: Allowed,
    /// Memberships by group.
    pub spaces: Vec<SpaceRule>,
    /// Whether signing out of the drive signs out there.
    pub sign_out: SignOut,
}

/// What signing out of the drive does at the provider by which somebody came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignOut {
    /// Nothing.
    #[default]
    Keep,
    /// It is offered.
    Offer,
    /// The browser is sent there.
    Always,
}

/// Who may come in: whom any of these names.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// Members of a group.
    pub groups: Vec<String>,
    /// Who has a verified mail address of a domain.
    pub domains: Vec<String>,
    /// Single subjects.
    pub subjects: Vec<String>,
}

/// Members of a group are members of a space.
#[derive(Debug, Clone)]
pub struct SpaceRule {
    /// The provider's group.
    pub group: String,
    /// The drive's space.
    pub space: String,
    /// With this role.
    pub role: Role,
}

impl Federation {
    /// A provider by its name in addresses.
    pub(crate) fn get(&self, id: &str) -> Result<&Trusted> {
        let found = self.providers.iter().find(|trusted| trusted.id == id);
        found.ok_or_else(|| Error::not_found("there is no such provider"))
    }
}

impl Allowed {
    fn admits(&self, person: &Person) -> bool {
        if self.groups.is_empty() && self.domains.is_empty() && self.subjects.is_empty() {
            return true;
        }
        let domain = person.domain().unwrap_or_default();
        self.subjects.contains(&person.subject)
            || self.groups.iter().any(|group| person.groups.contains(group))
            || self.domains.iter().any(|allowed| !domain.is_empty() && allowed.eq_ignore_ascii_case(domain))
    }
}

impl Trusted {
    /// Somebody the provider names, as this drive takes them; `Forbidden` if it does not.
    pub(crate) fn admit(&self, person: Person) -> Result<Federated> {
        if !self.allow.admits(&person) {
            return Err(Error::forbidden(format!(
                "{} may sign in at {}, but not here: ask the operator of this drive to be let in",
                person.label, self.name
            )));
        }
        let mut spaces: Vec<(String, Role)> = Vec::new();
        for rule in self.spaces.iter().filter(|rule| person.groups.contains(&rule.group)) {
            match spaces.iter_mut().find(|(space, _)| *space == rule.space) {
                Some((_, role)) => *role = (*role).max(rule.role),
                None => spaces.push((rule.space.clone(), rule.role)),
            }
        }
        let name = person.name.filter(|_| self.create);
        if let Some(name) = &name {
            check_account_name(name)
                .map_err(|error| Error::forbidden(format!("the provider's name for you is no name here: {error}")))?;
        }
        Ok(Federated { issuer: person.issuer, subject: person.subject, label: person.label, name, spaces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> Person {
        Person {
            issuer: "i".into(),
            subject: "s".into(),
            name: None,
            label: "Ana".into(),
            mail: Some("ana@Lab.example".into()),
            groups: vec!["staff".into()],
        }
    }

    #[test]
    fn an_allow_list_admits_whom_any_part_of_it_names() {
        let list = |groups: &[&str], domains: &[&str], subjects: &[&str]| {
            let all = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
            Allowed { groups: all(groups), domains: all(domains), subjects: all(subjects) }
        };
        for good in [
            list(&[], &[], &[]),
            list(&["x", "staff"], &[], &[]),
            list(&["x"], &["lab.example"], &[]),
            list(&[], &[], &["s"]),
        ] {
            assert!(good.admits(&person()), "{good:?}");
        }
        for bad in [list(&["x"], &[], &[]), list(&[], &["example"], &["S"]), list(&[], &["evil-lab.example"], &[])] {
            assert!(!bad.admits(&person()), "{bad:?}");
        }
        assert!(
            !list(&[], &["lab.example"], &[]).admits(&Person { mail: None, ..person() }),
            "unverified counts as none"
        );
    }
}
