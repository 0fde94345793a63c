//! Access keys: from a file in the format of the AWS tools, or from the environment variables those tools use.

use crate::secret::{Secret, read_file};
use holdfast_base::{Error, Result};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

/// An access key and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The key's public half.
    pub access_key_id: String,
    /// Its secret half.
    pub secret_access_key: Secret,
    /// A token that comes with keys that expire.
    pub session_token: Option<Secret>,
}

/// Where credentials are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialSource {
    /// In `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, where there is one, `AWS_SESSION_TOKEN`.
    Environment,
    /// In a file of sections, `[profile]`, with `aws_access_key_id = …` and so on below.
    File {
        /// The file.
        path: PathBuf,
        /// The section; `default` is the usual one.
        profile: String,
    },
    /// Here.
    Given(Credentials),
}

impl CredentialSource {
    /// Reads them.
    pub fn read(&self) -> Result<Credentials> {
        match self {
            Self::Given(credentials) => Ok(credentials.clone()),
            Self::Environment => from_environment(),
            Self::File { path, profile } => {
                let text = read_file(path)?;
                parse(&text, profile).ok_or_else(|| {
                    Error::invalid(format!(
                        "{} holds no aws_access_key_id and aws_secret_access_key in a section [{profile}]",
                        path.display()
                    ))
                })
            }
        }
    }
}

fn from_environment() -> Result<Credentials> {
    let missing = |name| move || Error::invalid(format!("{name} is not set; set it, or name a credentials_file"));
    let id = std::env::var("AWS_ACCESS_KEY_ID").ok().filter(|id| !id.is_empty());
    let secret = Secret::from_environment("AWS_SECRET_ACCESS_KEY");
    Ok(Credentials {
        access_key_id: id.ok_or_else(missing("AWS_ACCESS_KEY_ID"))?,
        secret_access_key: secret.ok_or_else(missing("AWS_SECRET_ACCESS_KEY"))?,
        session_token: Secret::from_environment("AWS_SESSION_TOKEN"),
    })
}

/// Finds the keys of a section.
fn parse(text: &str, profile: &str) -> Option<Credentials> {
    let (mut here, mut id, mut secret, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            here = section.trim() == profile;
        } else if let (true, Some((name, value))) = (here, line.split_once('=')) {
            let value = value.trim();
            match name.trim() {
                "aws_access_key_id" => id = Some(value.to_owned()),
                "aws_secret_access_key" => secret = Some(Secret::new(value)),
                "aws_session_token" => token = Some(Secret::new(value)),
                _ => {}
            }
        }
    }
    Some(Credentials { access_key_id: id?, secret_access_key: secret?, session_token: token })
}

/// The credentials in use, which can be read anew.
#[derive(Debug)]
pub(super) struct Keyring {
    source: CredentialSource,
    current: Mutex<Arc<Credentials>>,
}

impl Keyring {
    pub(super) fn open(source: &CredentialSource) -> Result<Self> {
        let current = Mutex::new(Arc::new(source.read()?));
        Ok(Self { source: source.clone(), current })
    }

    pub(super) fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.lock())
    }

    /// Reads them again after the service refused `refused`. Answers whether there are others now.
    pub(super) fn renew(&self, refused: &Credentials) -> bool {
        let mut current = self.current.lock();
        if **current != *refused {
            return true;
        }
        match self.source.read() {
            Ok(read) if read != *refused => {
                *current = Arc::new(read);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_of_the_file_is_found_among_others() {
        let text = "[other]\naws_access_key_id=x\naws_secret_access_key=y\n\n[ default ]\n# mine\naws_access_key_id = ID\naws_secret_access_key = a=b/c\n";
        let credentials = parse(text, "default").expect("is there");
        assert_eq!((credentials.access_key_id.as_str(), credentials.secret_access_key.reveal()), ("ID", "a=b/c"));
        assert_eq!(parse(text, "third"), None);
    }

    #[test]
    fn keys_that_another_program_renewed_are_found() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let write = |id: &str| {
            let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = s\n");
            std::fs::write(file.path(), text).expect("writes");
        };
        write("one");
        let source = CredentialSource::File { path: file.path().to_owned(), profile: "default".into() };
        let keyring = Keyring::open(&source).expect("reads");
        let refused = keyring.current();
        assert!(!keyring.renew(&refused), "nothing has changed");
        write("two");
        assert!(keyring.renew(&refused));
        assert_eq!(keyring.current().access_key_id, "two");
    }
}
