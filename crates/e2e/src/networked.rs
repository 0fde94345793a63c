//! A drive that is served with TLS, and mounts of it, as on other machines.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_testkit::http::Client;
use holdfast_testkit::server::ServerOptions;
use holdfast_testkit::services::free_port;

use crate::Outcome;
use crate::care::expect_clean;
use crate::mounted::Mount;
use crate::relay::relay;
use crate::rig::{NAME, PASSWORD, Rig, make_token};

/// A served drive, folders to mount on, and a token.
#[derive(Debug)]
pub struct Net {
    /// The drive.
    pub rig: Rig,
    /// The token of its account.
    pub token: String,
    port: u16,
    plain: u16,
    metrics: u16,
}

impl Net {
    /// A new drive, whose server comes back at the same address when it is started again.
    pub fn new() -> Outcome<Self> {
        Self::with(|options| options)
    }

    /// One that is served with changed options.
    pub fn with(change: impl FnOnce(ServerOptions) -> ServerOptions) -> Outcome<Self> {
        let (port, plain, metrics) = (free_port()?, free_port()?, free_port()?);
        let rig = Rig::with(|options| {
            let options = change(options).argument("--tls-self-signed").argument("--listen");
            let options = options.argument(&format!("https://127.0.0.1:{port}")).argument("--listen");
            let options = options.argument(&format!("http://127.0.0.1:{plain}"));
            options.argument("--metrics-listen").argument(&format!("127.0.0.1:{metrics}"))
        })?;
        let token = make_token(rig.server.options())?;
        Ok(Self { rig, token, port, plain, metrics })
    }

    /// One whose server has the account's space mounted itself, in a folder; and where.
    pub fn with_own_mount(folder: &Path) -> Outcome<(Self, PathBuf)> {
        let (at, password) = (folder.join("mnt"), folder.join("password"));
        fs::create_dir(&at)?;
        fs::write(&password, PASSWORD)?;
        let mount = format!("{NAME}={}", at.display());
        let net = Self::with(|options| {
            let options = options.argument("--mount").argument(&mount).argument("--mount-user").argument(NAME);
            options.argument("--mount-password-file").argument(&password.display().to_string())
        })?;
        Ok((net, at))
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A client of another face, signed in.
    pub fn client(&self) -> Client {
        Client::new(SocketAddr::from(([127, 0, 0, 1], self.plain))).with_account(NAME, PASSWORD)
    }

    /// Calls of mounts that the server had since it started, without those by which each says every second what it has heard of.
    pub fn calls(&self) -> Outcome<u64> {
        let words = self.metric("holdfast_wire_calls_total{operation=\"Heard\"")?;
        Ok(self.metric("holdfast_wire_calls_total{")?.saturating_sub(words))
    }

    /// The sum of the figures of the server whose lines begin so.
    pub fn metric(&self, name: &str) -> Outcome<u64> {
        let mut client = Client::new(SocketAddr::from(([127, 0, 0, 1], self.metrics)));
        let page = String::from_utf8(client.get("/metrics")?.expect_status(200)?.body.clone())?;
        let counts = page.lines().filter(|line| line.starts_with(name));
        counts.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
    }

    /// Its certificate.
    pub fn certificate(&self) -> PathBuf {
        self.rig.data().join("tls/self-signed.pem")
    }

    /// A mount of a drive with a folder `d` that it knows all of, which answers first and waits for its server for so many seconds.
    pub fn with_folder(deadline: &str) -> Outcome<(Self, Mount, PathBuf)> {
        let net = Self::new()?;
        let mount = net.mount_first("mnt", &["--deadline", deadline])?;
        let folder = mount.at().join("d");
        fs::create_dir(&folder)?;
        Ok((net, mount, folder))
    }

    /// Ends mounts and server, and has the drive prove itself.
    pub fn end(mut self, mounts: impl IntoIterator<Item = Mount>) -> Outcome {
        mounts.into_iter().try_for_each(Mount::stop)?;
        self.rig.stop()?;
        expect_clean(self.rig.server.options())
    }

    /// The command that mounts on `at`, with more arguments; it waits for the token on its standard input.
    pub fn command(&self, at: &Path, arguments: &[&str]) -> Outcome<Command> {
        self.command_to(&self.url(), at, arguments)
    }

    /// The same to another address of it.
    pub fn command_to(&self, url: &str, at: &Path, arguments: &[&str]) -> Outcome<Command> {
        let mut command = self.rig.server.options().command()?;
        command.arg("mount").arg(url).arg(at).args(["--token-file", "-", "--ca"]).arg(self.certificate());
        command.args(arguments);
        Ok(command)
    }

    /// Mounts the account's own space on a folder of this name.
    pub fn mount(&self, name: &str, arguments: &[&str]) -> Outcome<Mount> {
        let at = self.rig.scratch().join(name);
        if !at.exists() {
            fs::create_dir(&at)?;
        }
        let mut command = self.command(&at, arguments)?;
        // Any test can be run with it.
        let is_said = arguments.iter().any(|argument| argument.starts_with("--write-behind"));
        if std::env::var_os("HOLDFAST_MOUNT_WRITE_BEHIND").is_some_and(|wish| wish == "yes") && !is_said {
            let first = self.first(name);
            fs::create_dir_all(&first[2])?;
            command.args(first);
        }
        Mount::begin(command, &self.token, at)
    }

    /// Mounts so by the QUIC plane, through a relay at this address.
    pub fn mount_by_quic(&self, relay: SocketAddr, name: &str, arguments: &[&str]) -> Outcome<Mount> {
        let at = self.rig.scratch().join(name);
        fs::create_dir(&at)?;
        let mut command = self.command_to(&format!("https://{relay}"), &at, arguments)?;
        command.args(["--plane", "quic"]);
        Mount::begin(command, &self.token, at)
    }

    /// Where its server listens without TLS.
    pub fn plain(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.plain).into()
    }

    /// Where its server listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Arguments of a mount on a folder of this name that answers first, with a journal of its own.
    pub fn first(&self, name: &str) -> [String; 3] {
        let cache = self.rig.scratch().join(format!("cache-{name}"));
        ["--write-behind".into(), "--cache".into(), cache.display().to_string()]
    }

    /// Mounts so, with more arguments.
    pub fn mount_first(&self, name: &str, arguments: &[&str]) -> Outcome<Mount> {
        let first = self.first(name);
        fs::create_dir_all(&first[2])?;
        let all: Vec<&str> = first.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        self.mount(name, &all)
    }
}

/// Whether a machine has power.
type Power = Box<dyn Fn() -> bool + Send>;

/// The cable of a machine whose power is cut: what is read from it before is handed on, and nothing after. So a program that is told by its disk that the
/// power is off, which a real one would not live to hear, can do nothing about it any more.
#[derive(Clone)]
pub struct Cable {
    address: SocketAddr,
    power: Arc<Mutex<Power>>,
}

impl Cable {
    /// One to this service, of a machine that is off.
    pub fn to(service: SocketAddr) -> Outcome<Self> {
        let power: Arc<Mutex<Power>> = Arc::new(Mutex::new(Box::new(|| false)));
        let of_machine = power.clone();
        let address = relay(service, move |_, mut from, mut to| {
            let mut bytes = vec![0; 64 << 10];
            while let read @ 1.. = from.read(&mut bytes)? {
                let is_on = of_machine.lock().unwrap_or_else(PoisonError::into_inner)();
                if !is_on {
                    break;
                }
                to.write_all(&bytes[..read])?;
            }
            Ok(())
        })?;
        Ok(Self { address, power })
    }

    /// Where the machine finds the service.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The machine is on as long as this says so.
    pub fn power(&self, power: impl Fn() -> bool + Send + 'static) {
        *self.power.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(power);
    }
}
