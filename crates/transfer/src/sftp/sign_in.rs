//! Signing in: with a key of a file or an agent, with a password, or with the password as the answer to what the server asks.
//!
//! A key that was named is the first and only key. Without one and with a password, that comes first; otherwise it is the agent's keys, then the usual files in `~/.ssh`. Few keys
//! are offered, since servers end the connection after some.

use super::connect::{Handler, Heard, Target};
use holdfast_base::{Error, ErrorKind, Result};
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse as Asked};
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, decode_secret_key};
use russh::{MethodKind, MethodSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Keys that are offered: sshd ends the connection after six tries.
const KEYS_MAX: usize = 4;
/// Names of key files, the best first.
const USUAL: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Bytes of a key file at most.
const KEY_FILE_MAX: u64 = 64 << 10;
/// Rounds of questions that are answered.
const ROUNDS_MAX: usize = 8;
/// How long an agent may take: it may ask somebody.
const AGENT_TIME: Duration = Duration::from_secs(30);

/// A sign-in under way.
struct SignIn<'s> {
    ssh: &'s mut Handle<Handler>,
    user: &'s str,
    password: Option<&'s str>,
    heard: &'s Heard,
    /// Ways that the server still takes.
    ways: MethodSet,
    offered: usize,
    /// What was tried, or could not be, for the error.
    notes: Vec<String>,
}

/// Signs in.
pub(super) async fn sign_in(ssh: &mut Handle<Handler>, target: &Target, heard: &Heard) -> Result<()> {
    let none = ssh.authenticate_none(&target.user).await;
    let AuthResult::Failure { remaining_methods: ways, .. } = none.map_err(|error| heard.lost(Some(&error)))? else {
        return Ok(());
    };
    let password = target.login.password.as_ref().map(holdfast_auth::Secret::expose);
    let mut sign_in = SignIn { ssh, user: &target.user, password, heard, ways, offered: 0, notes: Vec::new() };
    let done = if let Some(identity) = &target.login.identity {
        sign_in.file(identity, true).await? || sign_in.password().await?
    } else {
        sign_in.password().await?
            || sign_in.agent().await?
            || sign_in.usual_files().await?
            || sign_in.password().await?
    };
    if done { Ok(()) } else { Err(sign_in.refused()) }
}

impl SignIn<'_> {
    fn refused(&self) -> Error {
        let Self { user, ways, notes, .. } = self;
        let ways: Vec<&str> = ways.iter().map(Into::into).collect();
        let tried = if notes.is_empty() { "there was nothing to sign in with".to_owned() } else { notes.join("; ") };
        let what = format!("{user} cannot sign in: {tried}. The server takes {}", ways.join(", "));
        Error::new(ErrorKind::Unauthenticated, what)
    }

    /// Whether it is done; otherwise what is taken from here on.
    fn answered(&mut self, result: AuthResult) -> Result<bool> {
        match result {
            AuthResult::Success => Ok(true),
            // So it is told that the connection is gone.
            AuthResult::Failure { remaining_methods, .. } if remaining_methods.is_empty() => Err(self.heard.lost(None)),
            AuthResult::Failure { remaining_methods, .. } => {
                self.ways = remaining_methods;
                Ok(false)
            }
        }
    }

    fn takes(&self, way: MethodKind) -> bool {
        self.ways.contains(&way)
    }

    /// With the password, once for each way.
    async fn password(&mut self) -> Result<bool> {
        let Some(password) = self.password else { return Ok(false) };
        if self.notes.iter().any(|note| note.starts_with("the password")) {
            return Ok(false);
        }
        for way in [MethodKind::Password, MethodKind::KeyboardInteractive] {
            if !self.takes(way) {
                continue;
            }
            let done = if way == MethodKind::Password {
                let result = self.ssh.authenticate_password(self.user, password).await;
                let result = result.map_err(|error| self.heard.lost(Some(&error)))?;
                self.answered(result)?
            } else {
                self.answer_questions(password).await?
            };
            if done {
                return Ok(true);
            }
            self.notes.push("the password is not taken".into());
            // It would be the same again.
            break;
        }
        Ok(false)
    }

    async fn answer_questions(&mut self, password: &str) -> Result<bool> {
        let lost = |error: russh::Error| self.heard.lost(Some(&error));
        let mut asked =
            self.ssh.authenticate_keyboard_interactive_start(self.user, None::<String>).await.map_err(lost)?;
        for _ in 0..ROUNDS_MAX {
            match asked {
                Asked::Success => return Ok(true),
                Asked::Failure { remaining_methods, partial_success } => {
                    return self.answered(AuthResult::Failure { remaining_methods, partial_success });
                }
                Asked::InfoRequest { prompts, .. } => {
                    let answers = prompts.iter().map(|_| password.to_owned()).collect();
                    let next = self.ssh.authenticate_keyboard_interactive_respond(answers).await;
                    asked = next.map_err(|error| self.heard.lost(Some(&error)))?;
                }
            }
        }
        Err(Error::new(ErrorKind::Unauthenticated, "the server asks and asks"))
    }

    async fn usual_files(&mut self) -> Result<bool> {
        let Some(folder) = std::env::home_dir().map(|home| home.join(".ssh")) else { return Ok(false) };
        for name in USUAL {
            let file = folder.join(name);
            if file.exists() && self.file(&file, false).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// With the key of a file. One that was named must be usable.
    async fn file(&mut self, file: &Path, named: bool) -> Result<bool> {
        if !self.may_offer() {
            return Ok(false);
        }
        let key = match key_of(file.to_owned(), self.password.map(str::to_owned)).await {
            Ok(key) => key,
            Err(error) if named => return Err(error),
            Err(error) => {
                self.notes.push(error.message().to_owned());
                return Ok(false);
            }
        };
        let hash = self.hash_for(key.algorithm().is_rsa()).await?;
        let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
        let result = self.ssh.authenticate_publickey(self.user, key).await;
        let result = result.map_err(|error| self.heard.lost(Some(&error)))?;
        self.notes.push(format!("the key of {} is not taken", file.display()));
        self.answered(result)
    }

    async fn agent(&mut self) -> Result<bool> {
        if std::env::var_os("SSH_AUTH_SOCK").is_none() || !self.may_offer() {
            return Ok(false);
        }
        let opened = async {
            let mut agent = AgentClient::connect_env().await?;
            let keys = agent.request_identities().await?;
            Ok::<_, russh::keys::Error>((agent, keys))
        };
        let Ok(Ok((mut agent, keys))) = timeout(AGENT_TIME, opened).await else {
            self.notes.push("the agent of SSH_AUTH_SOCK does not answer".into());
            return Ok(false);
        };
        for key in keys {
            if !self.may_offer() {
                break;
            }
            let key = key.public_key().into_owned();
            let hash = self.hash_for(key.algorithm().is_rsa()).await?;
            let trying = self.ssh.authenticate_publickey_with(self.user, key, hash, &mut agent);
            match timeout(AGENT_TIME, trying).await {
                Ok(Ok(result)) => {
                    if self.answered(result)? {
                        return Ok(true);
                    }
                    self.notes.push("a key of the agent is not taken".into());
                }
                Ok(Err(error)) => self.notes.push(format!("the agent does not sign: {error}")),
                Err(_) => return Err(Error::unavailable("the agent does not sign")),
            }
        }
        Ok(false)
    }

    fn may_offer(&mut self) -> bool {
        let may = self.takes(MethodKind::PublicKey) && self.offered < KEYS_MAX;
        self.offered += usize::from(may);
        may
    }

    /// The best hash for signatures of RSA that the server takes.
    async fn hash_for(&mut self, rsa: bool) -> Result<Option<HashAlg>> {
        if !rsa {
            return Ok(None);
        }
        let best = self.ssh.best_supported_rsa_hash().await;
        let best = best.map_err(|error| self.heard.lost(Some(&error)))?;
        Ok(best.unwrap_or(Some(HashAlg::Sha512)))
    }
}

/// Reads a key. One with a passphrase takes a while to open, by design.
async fn key_of(file: PathBuf, password: Option<String>) -> Result<PrivateKey> {
    let read = tokio::task::spawn_blocking(move || {
        let at = |error: Error| error.context(file.display());
        let length = std::fs::metadata(&file).map_err(|error| at(error.into()))?.len();
        if length > KEY_FILE_MAX {
            return Err(at(Error::invalid("it is too large for a private key")));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| at(error.into()))?;
        decode_secret_key(&text, password.as_deref()).map_err(|error| {
            let why = match (&error, &password) {
                (russh::keys::Error::KeyIsEncrypted, _) | (_, None) if is_encrypted(&text) => {
                    return at(Error::new(
                        ErrorKind::Unauthenticated,
                        "it has a passphrase: --password-file names a file with it",
                    ));
                }
                (_, Some(_)) if is_encrypted(&text) => {
                    return at(Error::new(ErrorKind::Unauthenticated, "its passphrase is another one"));
                }
                _ => "it is no private key of a kind that is known",
            };
            at(Error::invalid(why).with_source(error))
        })
    });
    read.await.map_err(|error| Error::internal("a key could not be read").with_source(error))?
}

fn is_encrypted(text: &str) -> bool {
    text.contains("ENCRYPTED") || PrivateKey::from_openssh(text).is_ok_and(|key| key.is_encrypted())
}
