//! A provider: what it publishes about itself, sending somebody there, and what they come back with.

use crate::client::{Client, check_url};
use crate::keys::KeySet;
use crate::person::Person;
use crate::token::{Claims, Expected, Refused, check};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use holdfast_base::{Error, Result};
use holdfast_seal::keys::random_bytes;
use holdfast_seal::proof::sha256;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

/// How long what a provider publishes is believed without asking again: ten minutes.
pub const KNOWN_FOR: Duration = Duration::from_mins(10);

/// Between two questions for a provider's keys because of a token: whoever sends such tokens makes no more of them.
const KEYS_AGAIN: Duration = Duration::from_secs(10);

/// What goes through a query or a form unchanged (RFC 3986 section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How to speak to a provider.
#[derive(Clone)]
pub struct ProviderOptions {
    /// Its address, letter by letter as it is in its tokens.
    pub issuer: String,
    /// What it knows the drive as.
    pub client_id: String,
    /// The secret it gave; none for a public client, which PKCE alone protects.
    pub client_secret: Option<Zeroizing<String>>,
    /// What to ask for, besides `openid`.
    pub scopes: Vec<String>,
    /// Which claim names the account.
    pub name_claim: String,
    /// Which claim lists groups.
    pub groups_claim: String,
    /// Authorities to believe in, in place of the machine's.
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderOptions")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// What the caller keeps of a sign-in that has begun, sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Comes back with the browser.
    pub state: String,
    /// Comes back in the token.
    pub nonce: String,
    /// Proves that who asks for the token is who began (RFC 7636).
    pub verifier: String,
    /// Where the browser comes back to.
    pub redirect: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Published {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

impl Published {
    /// Itself, if it is what this provider says.
    fn of(self, issuer: &str) -> Result<Self> {
        if self.issuer != issuer {
            return Err(Error::unavailable(format!(
                "the provider calls itself {}, not {issuer}: one of the two configurations is wrong",
                self.issuer
            )));
        }
        check_url(&self.authorization_endpoint)?;
        Ok(self)
    }
}

/// For [`crate::fuzzed`].
pub(crate) fn read_published(issuer: &str, bytes: &[u8]) -> Result<()> {
    let published: Published =
        serde_json::from_slice(bytes).map_err(|_| Error::unavailable("the provider's answer is malformed"))?;
    published.of(issuer).map(drop)
}

struct Known {
    published: Arc<Published>,
    keys: Arc<KeySet>,
    asked: Instant,
    keys_asked: Instant,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
}

/// A provider.
pub struct Provider {
    options: ProviderOptions,
    client: Client,
    known: Mutex<Option<Known>>,
}

impl Provider {
    /// Makes one; it is not asked for anything yet.
    pub fn new(options: ProviderOptions) -> Result<Self> {
        check_url(&options.issuer)?;
        if options.client_id.is_empty() {
            return Err(Error::invalid(format!("the provider {} needs a client_id", options.issuer)));
        }
        Ok(Self { client: Client::new(options.ca_file.as_deref())?, options, known: Mutex::default() })
    }

    /// Its address.
    pub fn issuer(&self) -> &str {
        &self.options.issuer
    }

    /// Where to send a browser that is to come back to `redirect`, and what to keep.
    pub async fn begin(&self, redirect: &str) -> Result<(String, Begun)> {
        let (published, _) = self.known().await?;
        let random = || random_bytes::<32>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let begun = Begun { state: random()?, nonce: random()?, verifier: random()?, redirect: redirect.to_owned() };
        let scope = std::iter::once("openid").chain(self.options.scopes.iter().map(String::as_str));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", &self.options.client_id),
            ("redirect_uri", redirect),
            ("scope", &scope.collect::<Vec<_>>().join(" ")),
            ("state", &begun.state),
            ("nonce", &begun.nonce),
            ("code_challenge", &URL_SAFE_NO_PAD.encode(sha256(begun.verifier.as_bytes()))),
            ("code_challenge_method", "S256"),
        ]);
        Ok((with_query(&published.authorization_endpoint, &query), begun))
    }

    /// Where to send a browser that is to sign out there and then come back to `back`; none if the provider has no such address.
    ///
    /// No hint of the token is sent, since none is kept: the provider knows its own session, and may ask the person.
    pub async fn leave(&self, back: &str) -> Result<Option<String>> {
        let (published, _) = self.known().await?;
        let Some(address) = &published.end_session_endpoint else { return Ok(None) };
        check_url(address)?;
        let query = form(&[("client_id", &self.options.client_id), ("post_logout_redirect_uri", back)]);
        Ok(Some(with_query(address, &query)))
    }

    /// Who came back with this code.
    pub async fn finish(&self, begun: &Begun, code: &str, now_ms: i64) -> Result<Person> {
        let (published, keys) = self.known().await?;
        let tokens = self.tokens(&published, begun, code).await?;
        let expected = Expected {
            issuer: &self.options.issuer,
            client: &self.options.client_id,
            nonce: &begun.nonce,
            now_s: now_ms.div_euclid(1_000),
        };
        let mut claims = match check(&tokens.id_token, &keys, &expected) {
            Err(Refused::UnknownKey) => {
                let keys = self.new_keys(&published).await?;
                check(&tokens.id_token, &keys, &expected)
            }
            checked => checked,
        }
        .map_err(|refused| match refused {
            Refused::UnknownKey => Error::forbidden("the provider's answer was refused: nobody knows its token's key"),
            Refused::Wrong(error) => error,
        })?;
        self.add_userinfo(&published, &tokens, &mut claims).await?;
        Person::of(&claims, &self.options.issuer, &self.options.name_claim, &self.options.groups_claim)
    }

    async fn tokens(&self, published: &Published, begun: &Begun, code: &str) -> Result<Tokens> {
        let options = &self.options;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", begun.redirect.as_str()),
            ("code_verifier", begun.verifier.as_str()),
        ];
        let methods = &published.token_endpoint_auth_methods_supported;
        let basic = methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        let mut authorization = None;
        match &options.client_secret {
            // RFC 6749 section 2.3.1: both are encoded as in a form.
            Some(secret) if basic => {
                let pair = format!("{}:{}", encode(&options.client_id), encode(secret));
                authorization = Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(pair))));
            }
            secret => {
                fields.push(("client_id", &options.client_id));
                fields.extend(secret.as_ref().map(|secret| ("client_secret", secret.as_str())));
            }
        }
        self.client.post(&published.token_endpoint, form(&fields), authorization.as_deref().map(String::as_str)).await
    }

    /// Claims that the token lacks may be at the userinfo endpoint.
    async fn add_userinfo(&self, published: &Published, tokens: &Tokens, claims: &mut Claims) -> Result<()> {
        let wanted = [&self.options.name_claim, &self.options.groups_claim];
        let (Some(url), Some(token)) = (&published.userinfo_endpoint, &tokens.access_token) else { return Ok(()) };
        if wanted.iter().all(|claim| claims.contains_key(*claim)) {
            return Ok(());
        }
        let more: Claims = self.client.get(url, Some(token)).await?;
        // Core section 5.3.2: it may be somebody else's.
        if more.get("sub") != claims.get("sub") {
            return Err(Error::forbidden("the provider's answer was refused: it tells of somebody else"));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// What the provider publishes and its keys, asked for if need be.
    async fn known(&self) -> Result<(Arc<Published>, Arc<KeySet>)> {
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.asked.elapsed() < KNOWN_FOR) {
            return Ok((known.published.clone(), known.keys.clone()));
        }
        let url = format!("{}/.well-known/openid-configuration", self.options.issuer.trim_end_matches('/'));
        let published = self.client.get::<Published>(&url, None).await?.of(&self.options.issuer)?;
        let keys: KeySet = self.client.get(&published.jwks_uri, None).await?;
        let now = Instant::now();
        let fresh = known.insert(Known { published: published.into(), keys: keys.into(), asked: now, keys_asked: now });
        Ok((fresh.published.clone(), fresh.keys.clone()))
    }

    /// The keys of now, unless they were asked for a moment ago.
    async fn new_keys(&self, published: &Published) -> Result<Arc<KeySet>> {
        let mut known = self.known.lock().await;
        let Some(known) = known.as_mut() else { return Err(Error::unavailable("the provider's keys are not known")) };
        if known.keys_asked.elapsed() >= KEYS_AGAIN {
            known.keys = Arc::new(self.client.get(&published.jwks_uri, None).await?);
            known.keys_asked = Instant::now();
        }
        Ok(known.keys.clone())
    }
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Provider").field(&self.options).finish()
    }
}

fn with_query(address: &str, query: &str) -> String {
    let mark = if address.contains('?') { '&' } else { '?' };
    format!("{address}{mark}{query}")
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

fn form(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_encoded() {
        assert_eq!(form(&[("a", "b c&d=e"), ("scope", "ä")]), "a=b%20c%26d%3De&scope=%C3%A4");
    }

    #[test]
    fn a_provider_on_another_machine_is_spoken_to_by_tls() {
        let options = |issuer: &str| ProviderOptions {
            issuer: issuer.into(),
            client_id: "drive".into(),
            client_secret: None,
            scopes: Vec::new(),
            name_claim: "preferred_username".into(),
            groups_claim: "groups".into(),
            ca_file: None,
        };
        assert!(Provider::new(options("http://id.example")).is_err());
        assert!(Provider::new(options("http://127.0.0.1:9")).is_ok());
        assert!(Provider::new(ProviderOptions { client_id: String::new(), ..options("https://id.example") }).is_err());
    }
}
