//! Sign-in by providers: settings, and what the API is given of them.

use holdfast_api::federation::{Allowed, Federation, SignOut, SpaceRule, Trusted};
use holdfast_auth::EscrowKey;
use holdfast_base::{Error, Result};
use holdfast_meta::Role;
use holdfast_oidc::{Provider, ProviderOptions};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Longest file with a secret that is read.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// Providers at most: more do not fit a page.
const PROVIDERS_MAX: usize = 20;

/// Configuration of sign-in by providers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignInConfig {
    /// Providers of OpenID Connect, in the order in which they are offered.
    pub providers: Vec<ProviderConfig>,
    /// File with the operator's escrow key: accounts are opened with it when a provider says whose they are.
    pub escrow_key_file: Option<PathBuf>,
}

/// A provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Names it in addresses: letters, digits and dashes.
    pub id: String,
    /// What people know it as.
    pub name: String,
    /// Its address, letter by letter as it calls itself.
    pub issuer: String,
    /// What it knows the drive as.
    pub client_id: String,
    /// File with the secret it gave.
    pub client_secret_file: Option<PathBuf>,
    /// Environment variable with it.
    pub client_secret_env: Option<String>,
    /// What to ask for besides `openid`; `profile` and `email` if nothing.
    pub scopes: Vec<String>,
    /// Claim that names the account; `preferred_username` if none.
    pub name_claim: Option<String>,
    /// Claim that lists groups; `groups` if none.
    pub groups_claim: Option<String>,
    /// PEM file of authorities to believe in, in place of the machine's.
    pub ca_file: Option<PathBuf>,
    /// Make accounts for people who are new.
    pub create_accounts: bool,
    /// Members of these groups may come in.
    pub allow_groups: Vec<String>,
    /// Who has a verified mail address of these domains may.
    pub allow_domains: Vec<String>,
    /// These subjects may.
    pub allow_subjects: Vec<String>,
    /// Memberships by group.
    pub spaces: Vec<SpaceConfig>,
    /// What signing out of the drive does there: `keep`, `offer` or `always`.
    pub sign_out: SignOut,
}

/// Members of a group are members of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceConfig {
    /// The provider's group.
    pub group: String,
    /// The drive's space.
    pub space: String,
    /// `reader` or `editor`.
    pub role: Role,
}

impl SignInConfig {
    /// The escrow key, if it is named.
    pub(crate) fn escrow(&self) -> Result<Option<EscrowKey>> {
        let Some(path) = &self.escrow_key_file else { return Ok(None) };
        EscrowKey::parse(&secret(path)?).map(Some).map_err(|error| error.context(path.display()))
    }

    /// What the API is given.
    pub(crate) fn federation(&self) -> Result<Federation> {
        if self.providers.len() > PROVIDERS_MAX {
            return Err(Error::invalid(format!("sign_in.providers: {PROVIDERS_MAX} at most")));
        }
        let mut providers: Vec<Trusted> = Vec::new();
        for config in &self.providers {
            let trusted =
                config.trusted().map_err(|error| error.context(format!("sign_in.providers, {:?}", config.id)))?;
            if providers.iter().any(|known| known.id == trusted.id) {
                return Err(Error::invalid(format!("sign_in.providers: {:?} is there twice", trusted.id)));
            }
            providers.push(trusted);
        }
        Ok(Federation { providers, escrow: self.escrow()? })
    }
}

impl ProviderConfig {
    fn trusted(&self) -> Result<Trusted> {
        if self.id.is_empty() || !self.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::invalid("id: letters, digits and dashes"));
        }
        if self.spaces.iter().any(|rule| rule.role == Role::Owner) {
            return Err(Error::invalid("spaces: groups make readers and editors, not owners"));
        }
        let scopes = ["profile", "email"].map(ToOwned::to_owned).to_vec();
        let options = ProviderOptions {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: self.secret()?,
            scopes: if self.scopes.is_empty() { scopes } else { self.scopes.clone() },
            name_claim: self.name_claim.clone().unwrap_or_else(|| "preferred_username".into()),
            groups_claim: self.groups_claim.clone().unwrap_or_else(|| "groups".into()),
            ca_file: self.ca_file.clone(),
        };
        let rule =
            |rule: &SpaceConfig| SpaceRule { group: rule.group.clone(), space: rule.space.clone(), role: rule.role };
        Ok(Trusted {
            id: self.id.clone(),
            name: if self.name.is_empty() { self.id.clone() } else { self.name.clone() },
            provider: Provider::new(options)?,
            create: self.create_accounts,
            allow: Allowed {
                groups: self.allow_groups.clone(),
                domains: self.allow_domains.clone(),
                subjects: self.allow_subjects.clone(),
            },
            spaces: self.spaces.iter().map(rule).collect(),
            sign_out: self.sign_out,
        })
    }

    fn secret(&self) -> Result<Option<Zeroizing<String>>> {
        match (&self.client_secret_file, &self.client_secret_env) {
            (Some(_), Some(_)) => Err(Error::invalid("the client's secret is in a file or in a variable, not in both")),
            (Some(path), None) => secret(path).map(Some),
            (None, Some(name)) => {
                let value = std::env::var(name);
                value
                    .map(|value| Some(Zeroizing::new(value)))
                    .map_err(|_| Error::invalid(format!("there is no variable {name}")))
            }
            (None, None) => Ok(None),
        }
    }
}

/// The first line of a file.
fn secret(path: &Path) -> Result<Zeroizing<String>> {
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path).map_err(at)?.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(at)?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().trim().to_owned()))
}
