//! A PostgreSQL server of a test's own.
//!
//! [`PostgresServer::start`] makes a cluster in a temporary folder and runs it on a free port of loopback, as an unprivileged account
//! when the test is root. A small shell keeps it: it waits at the end of a pipe whose other end the test holds, so that the
//! server ends and its folder goes when the test does, in whatever way that ends. [`PostgresServer::shared`] is one
//! server for all tests of a program; each makes a database of its own with [`PostgresServer::database`].
//!
//! The server's language is English and not C, so that a catalogue that forgot to ask for byte order is found out.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a start may take: recovery after a crash on a busy machine included.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How long a stop may take.
const STOP_LIMIT: Duration = Duration::from_mins(1);
/// How often a start is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The administrator of the cluster.
const ACCOUNT: &str = "holdfast";
/// Runs the server, waits for the end of its input, stops the server as a crash would, and removes the folder unless it is to be kept.
const KEEPER: &str = r#"
folder=$1; shift
"$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
read -r word || word=remove
kill -QUIT "$server" 2>/dev/null
wait "$server"
[ "$word" = keep ] || rm -rf "$folder"
"#;

/// Whether commits of a test's server reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// They need not: for tests of what operations do. A crash of the server alone loses nothing all the same.
    Logic,
    /// They do: for tests of speed and of lost power.
    Disk,
}

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: PathBuf,
    address: SocketAddr,
    account: Option<(u32, u32)>,
    settings: Vec<String>,
    keeper: Option<Child>,
    databases: AtomicU32,
}

impl PostgresServer {
    /// Makes a cluster and starts it.
    pub fn start(durability: Durability) -> io::Result<Self> {
        let fsync = if durability == Durability::Logic { "off" } else { "on" };
        Self::start_with(&[format!("fsync={fsync}")], &[])
    }

    /// The same with commits that reach the disk, and everything below another folder than that for temporary files.
    pub fn start_in(parent: &Path) -> io::Result<Self> {
        Self::begin(parent, &["fsync=on".to_owned()], &[])
    }

    /// The same with settings of the server (`name=value`), and with files of its own, which they name as seen from the data folder
    /// (`../name`).
    pub fn start_with(settings: &[String], files: &[(&str, &str)]) -> io::Result<Self> {
        Self::begin(&std::env::temp_dir(), settings, files)
    }

    fn begin(parent: &Path, settings: &[String], files: &[(&str, &str)]) -> io::Result<Self> {
        let programs = programs()?;
        let account = unprivileged()?;
        let folder = make_folder(parent, files, account)?;
        let address = free_port()?;
        let settings = settings.to_vec();
        let databases = AtomicU32::new(0);
        let mut server = Self { programs, folder, address, account, settings, keeper: None, databases };
        server.initialise()?;
        server.resume()?;
        Ok(server)
    }

    /// The one server that the tests of this program share. It ends with the program.
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: Mutex<Option<&'static PostgresServer>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = *shared {
            return Ok(server);
        }
        let server: &'static Self = Box::leak(Box::new(Self::start(Durability::Logic)?));
        *shared = Some(server);
        Ok(server)
    }

    /// Makes an empty database and answers its URL.
    pub fn database(&self) -> io::Result<String> {
        let name = self.next_name();
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(&name))
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ACCOUNT}@{}/{database}", self.address)
    }

    /// Makes a copy of a database that nobody uses, and answers its URL.
    pub fn copy(&self, url: &str) -> io::Result<String> {
        let from = name_of(url)?;
        // The server may not have noticed yet that a program which was killed is gone.
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'");
        self.sql("postgres", &end)?;
        let name = self.next_name();
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {from}"))?;
        Ok(self.url(&name))
    }

    /// Removes a database, whoever uses it.
    pub fn drop_database(&self, url: &str) -> io::Result<()> {
        self.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", name_of(url)?)).map(drop)
    }

    /// The folder of everything that it writes: databases, log of transactions, log for people.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes every table of a database into a file below [`Self::folder`], as it is answered: in its own pages and log a long value may
    /// lie compressed.
    pub fn copy_out(&self, url: &str) -> io::Result<()> {
        let name = name_of(url)?;
        let tables =
            self.sql(name, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")?;
        for table in tables.lines() {
            let file = self.folder.join(format!("copy-{name}-{table}"));
            self.sql(name, &format!("COPY {table} TO '{}' (FORMAT binary)", file.display()))?;
        }
        Ok(())
    }

    /// The files of a database's tables and indexes.
    pub fn files_of(&self, url: &str) -> io::Result<Vec<PathBuf>> {
        let sql = "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relnamespace IN ('public'::regnamespace, \
                   'pg_toast'::regnamespace) AND relkind IN ('r', 'i', 't') AND pg_relation_size(oid) > 0 AND oid >= 16384 \
                   ORDER BY oid";
        let files = self.sql(name_of(url)?, sql)?;
        Ok(files.lines().map(|file| self.folder.join("data").join(file)).collect())
    }

    /// Bytes of a database, once the dead versions of its rows are gone; when those go is the server's own business.
    pub fn bytes(&self, url: &str) -> io::Result<u64> {
        let name = name_of(url)?;
        self.sql(name, "VACUUM FULL")?;
        let bytes = self.sql(name, &format!("SELECT pg_database_size('{name}')"))?;
        bytes.parse().map_err(io::Error::other)
    }

    fn next_name(&self) -> String {
        format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed))
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs SQL in a database, beside whatever is tested; answers what it says, a line a row.
    pub fn sql(&self, database: &str, sql: &str) -> io::Result<String> {
        let output = self
            .program("psql")
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set",
                "ON_ERROR_STOP=1",
                "--command",
                sql,
            ])
            .arg(self.url(database))
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{sql}: {}", String::from_utf8_lossy(&output.stderr))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// A server that follows this one, and without which this one acknowledges no commit: after [`Self::crash`] of this one it has
    /// everything that was acknowledged, and takes over with [`Self::promote`].
    pub fn standby(&self) -> io::Result<Self> {
        let folder = make_folder(&std::env::temp_dir(), &[], self.account)?;
        let settings = self.settings.iter().cloned().chain(["cluster_name=standby".to_owned()]).collect();
        let mut standby = Self {
            programs: self.programs.clone(),
            folder,
            address: free_port()?,
            account: self.account,
            settings,
            keeper: None,
            databases: AtomicU32::new(0),
        };
        let output = standby
            .program("pg_basebackup")
            .args(["--no-password", "--no-sync", "--write-recovery-conf", "--checkpoint=fast", "--pgdata"])
            .arg(standby.folder.join("data"))
            .args(["--dbname", &self.url("postgres")])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("pg_basebackup: {}", String::from_utf8_lossy(&output.stderr))));
        }
        standby.resume()?;
        let began = Instant::now();
        let followers = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        while self.sql("postgres", followers)? != "1" {
            if began.elapsed() > START_LIMIT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the standby does not follow"));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'")?;
        self.sql("postgres", "SELECT pg_reload_conf()")?;
        Ok(standby)
    }

    /// Makes a standby the server that takes changes.
    pub fn promote(&self) -> io::Result<()> {
        self.sql("postgres", "SELECT pg_promote()").map(drop)
    }

    /// Stops it as a crash would: nothing is finished, nothing is written down.
    pub fn crash(&mut self) -> io::Result<()> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(()) };
        if let Some(mut pipe) = keeper.stdin.take() {
            pipe.write_all(b"keep\n")?;
        }
        wait(&mut keeper)
    }

    /// Starts it again on the same folder and port, and waits until it answers.
    pub fn resume(&mut self) -> io::Result<()> {
        let folder = self.folder.clone();
        let mut server: Vec<OsString> =
            vec![self.programs.join("postgres").into(), "-D".into(), folder.join("data").into()];
        let fixed = [
            format!("port={}", self.address.port()),
            format!("listen_addresses={}", self.address.ip()),
            format!("unix_socket_directories={}", folder.display()),
            "max_connections=300".to_owned(),
        ];
        for setting in fixed.iter().chain(&self.settings) {
            server.extend(["-c".into(), setting.into()]);
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", KEEPER, "keeper"]).arg(&folder).args(server);
        self.keeper = Some(self.as_account(command).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?);
        self.wait_until_ready()
    }

    fn initialise(&self) -> io::Result<()> {
        let output = self
            .program("initdb")
            .args(["--auth=trust", "--no-sync", "--data-checksums", "--encoding=UTF8", "--locale=C.UTF-8"])
            .args(["--locale-provider=icu", "--icu-locale=en-US", "--username", ACCOUNT, "--pgdata"])
            .arg(self.folder.join("data"))
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&output.stderr))))
    }

    /// The server writes its state into a file that it removes when it ends.
    fn wait_until_ready(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let state = self.folder.join("data/postmaster.pid");
        while began.elapsed() < START_LIMIT {
            let ready = fs::read_to_string(&state).is_ok_and(|text| {
                text.lines().nth(7).is_some_and(|line| matches!(line.trim(), "ready" | "standby"))
                    && text.lines().next().is_some_and(|process| Path::new("/proc").join(process).exists())
            });
            if ready {
                return Ok(());
            }
            if let Some(keeper) = &mut self.keeper
                && keeper.try_wait()?.is_some()
            {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        Err(io::Error::other(format!("PostgreSQL did not start: {log}")))
    }

    /// One of its programs, as the account that it runs as.
    pub fn program(&self, name: &str) -> Command {
        self.as_account(Command::new(self.programs.join(name)))
    }

    fn as_account(&self, mut command: Command) -> Command {
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.folder).env("LC_ALL", "C.UTF-8");
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            if let Err(error) = wait(&mut keeper) {
                eprintln!("PostgreSQL did not end: {error}");
            }
        }
        // Gone already, unless there was no keeper to do it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The database of a URL.
pub fn name_of(url: &str) -> io::Result<&str> {
    let name = url.rsplit_once('/').map(|(_, name)| name);
    name.ok_or_else(|| io::Error::other(format!("there is no database in {url}")))
}

/// A folder with files for the server's account.
fn make_folder(parent: &Path, files: &[(&str, &str)], account: Option<(u32, u32)>) -> io::Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("holdfast-postgres-").tempdir_in(parent)?.keep();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    for (name, content) in files {
        fs::write(folder.join(name), content)?;
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600))?;
    }
    if let Some((user, group)) = account {
        for path in files.iter().map(|(name, _)| folder.join(name)).chain([folder.clone()]) {
            chown(path, Some(user), Some(group))?;
        }
    }
    Ok(folder)
}

fn wait(keeper: &mut Child) -> io::Result<()> {
    let began = Instant::now();
    while keeper.try_wait()?.is_none() {
        if began.elapsed() > STOP_LIMIT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server's keeper goes on"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// The folder of the newest PostgreSQL on this machine. Debian puts its programs on nobody's PATH.
fn programs() -> io::Result<PathBuf> {
    let version = |path: &PathBuf| {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        folder.and_then(|name| name.parse::<u32>().ok())
    };
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let candidates = installed.map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let newest = candidates.filter(|path| path.join("initdb").exists()).max_by_key(version);
    newest.or_else(|| std::env::split_paths(&path).find(|path| path.join("initdb").exists())).ok_or_else(|| {
        let message = "PostgreSQL is not installed: scripts/need.sh postgresql";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

/// Whom to run as: the server refuses to run as root.
fn unprivileged() -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let numbers = |name: &str| {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let account = numbers("postgres").or_else(|| numbers("nobody"));
    account.map(Some).ok_or_else(|| io::Error::other("there is no account to run PostgreSQL as"))
}

fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
