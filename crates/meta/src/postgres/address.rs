//! Where the database is: its URL, with the password never shown, and whether the way to it must be encrypted.

use super::Options;
use super::tls::Tls;
use holdfast_base::{Error, ErrorKind, Result};
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// A server that goes away without a word is noticed after some 20 s of silence.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;

/// A parsed URL, and how connections to it are made.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Option<Tls>,
}

impl Address {
    /// Parses a URL. A name, and so everything a catalogue holds but content, goes over the network: a server on another
    /// machine is spoken to by TLS, or in clear only if the URL says so.
    pub(super) fn parse(url: &str, options: &Options) -> Result<Self> {
        let invalid = |message: String| Error::invalid(format!("the URL of the catalogue's database: {message}"));
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(invalid("it has to begin with postgres://".to_owned()));
        }
        let mut config: Config = url.parse().map_err(|error| invalid(hide(url, &explain(&error))))?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(invalid("it names no account".to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = password(options.password_file.as_deref())?
        {
            config.password(password);
        }
        let tls = options.ca_file.as_deref().map(Tls::trusting).transpose()?;
        match (&tls, config.get_ssl_mode()) {
            (Some(_), SslMode::Disable) => {
                return Err(invalid("it says sslmode=disable, but certificates are given".to_owned()));
            }
            (Some(_), _) => config.ssl_mode(SslMode::Require),
            (None, SslMode::Require) => {
                return Err(invalid("it says sslmode=require: name the file of certificates to trust".to_owned()));
            }
            (None, SslMode::Disable) => &mut config,
            (None, _) if config.get_hosts().iter().all(is_near) => config.ssl_mode(SslMode::Disable),
            (None, _) => {
                let message = "the server is on another machine: name the file of certificates to trust, or say \
                               sslmode=disable to send names and passwords' hashes in clear";
                return Err(invalid(message.to_owned()));
            }
        };
        config
            .application_name("holdfast")
            .connect_timeout(options.connect_timeout)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        Ok(Self { config, tls })
    }

    /// The server and database, for logs.
    pub(super) fn server(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().map(show).collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

/// Whether nobody on a network sees what is sent.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn show(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// What the parser says, with its cause.
fn explain(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The variable that PostgreSQL's own programs take a password from.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";
/// Longest file of a password that is read.
const PASSWORD_BYTES_MAX: u64 = 4 << 10;

/// The password, if there is one beside the URL.
fn password(file: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = file else {
        return Ok(std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty()));
    };
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut text = String::new();
    std::fs::File::open(path).map_err(at)?.take(PASSWORD_BYTES_MAX).read_to_string(&mut text).map_err(at)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(Error::invalid(format!("{} has no password in its first line", path.display()))),
    }
}

/// Takes the password out of a message.
fn hide(url: &str, message: &str) -> String {
    let login = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(login, _)| login);
    match login.and_then(|login| login.split_once(':')).map(|(_, password)| password) {
        Some(password) if !password.is_empty() => message.replace(password, "…"),
        _ => message.to_owned(),
    }
}

/// An error of connecting, for a person: what is wrong, where.
pub(super) fn refused(address: &Address, error: crate::sql::fault::DatabaseError) -> Error {
    let detail = error.cause.to_string();
    let message = format!("{} ({}: {detail})", error.message, address.server());
    let kind = if error.kind == ErrorKind::Internal { ErrorKind::Unavailable } else { error.kind };
    Error::new(kind, message).with_source(error.cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str) -> String {
        Address::parse(url, &Options::default()).err().expect("is refused").to_string()
    }

    #[test]
    fn a_bad_url_says_what_is_wrong_and_keeps_the_password() {
        for (url, says) in [
            ("mysql://ana:s3cret@localhost/x", "has to begin with postgres://"),
            ("postgres://ana:s3cret@localhost:s3cret/x", "port"),
            ("postgres://ana:s3cret@localhost/x?colour=red", "colour"),
            ("postgres:///x?user=ana", "no host"),
            ("postgres://localhost/x", "no account"),
            ("postgres://ana:s3cret@db.example/x", "another machine"),
            ("postgres://ana:s3cret@localhost/x?sslmode=require", "certificates"),
        ] {
            let message = error(url);
            assert!(message.contains(says), "{url}: {message}");
            assert!(!message.contains("s3cret"), "{url}: {message}");
        }
    }

    #[test]
    fn near_servers_need_no_encryption() {
        for url in ["postgres://ana@127.0.0.1/x", "postgres://ana@[::1]/x", "postgresql:///x?host=/run/pg&user=ana"] {
            Address::parse(url, &Options::default()).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        Address::parse("postgres://ana@db.example/x?sslmode=disable", &Options::default()).expect("was told to");
    }
}
