//! OpenStack Swift, all in one: proxy, account, container and object server on one device, which is a folder; TempAuth, with
//! memcached for its tokens. Nothing of the system's own configuration is used.
//!
//! **What a machine needs**: Swift keeps an object's metadata in extended attributes (`user.*`), so the temporary folder must be
//! on a file system that has them: ext4, xfs and btrfs do; tmpfs since Linux 6.6; overlayfs if what is below does.

use super::process::{Kept, hand_over};
use super::{ask, find_program, free_port, need};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Four Python programs on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);

/// How the service differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub struct SwiftOptions {
    /// How long a token lasts.
    pub token_seconds: u64,
}

impl Default for SwiftOptions {
    /// What TempAuth does by itself.
    fn default() -> Self {
        Self { token_seconds: 86_400 }
    }
}

/// A running Swift with one container.
#[derive(Debug)]
pub struct Swift {
    // Before the folder, which must outlive them.
    servers: Vec<Kept>,
    /// The port of the proxy server, which clients speak to.
    pub port: u16,
    memcached_port: u16,
    folder: tempfile::TempDir,
}

/// Swift reads `/etc/swift/swift.conf` and nothing else, unless it is told before it reads it.
const RUN: &str = "import sys, runpy
import swift.common.utils
conf = sys.argv[1]
for name, module in list(sys.modules.items()):
    if name.startswith('swift.') and hasattr(module, 'SWIFT_CONF_FILE'):
        module.SWIFT_CONF_FILE = conf
import swift.common.storage_policy as policies
policies.SWIFT_CONF_FILE = conf
policies.reload_storage_policies()
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name='__main__')
";

impl Swift {
    /// The user, who administers the account `test`.
    pub const USER: &str = "test:tester";
    /// The user's key; of no use to anybody else, since the server is on loopback and ends with the test.
    pub const KEY: &str = "testing";
    /// The container.
    pub const CONTAINER: &str = "packs";

    /// Starts it and waits until the container is there.
    pub fn start(options: SwiftOptions) -> io::Result<Self> {
        if ["swift-proxy-server", "swift-object-server", "memcached"].iter().any(|name| find_program(name).is_none()) {
            need(&["swift"])?;
        }
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        fs::create_dir_all(root.join("node/d1"))?;
        check_attributes(&root.join("node/d1"))?;
        fs::write(root.join("run.py"), RUN)?;
        let hash = "[swift-hash]\nswift_hash_path_suffix = tests\nswift_hash_path_prefix = tests\n";
        fs::write(root.join("swift.conf"), format!("{hash}[storage-policy:0]\nname = one\ndefault = yes\n"))?;
        let ports: Vec<u16> = (0..5).map(|_| free_port()).collect::<io::Result<_>>()?;
        for (name, port) in ["object", "container", "account"].iter().zip(&ports) {
            make_ring(root, name, *port)?;
            fs::write(root.join(format!("{name}.conf")), storage_server(root, name, *port))?;
        }
        let (port, memcached_port) = (ports[3], ports[4]);
        fs::write(root.join("proxy.conf"), proxy_server(root, port, memcached_port, options))?;
        hand_over(root)?;
        let mut servers = vec![start_memcached(root, memcached_port)?];
        for name in ["object", "container", "account", "proxy"] {
            servers.push(start_server(root, name)?);
        }
        let mut swift = Self { servers, port, memcached_port, folder };
        swift.wait()?;
        Ok(swift)
    }

    fn wait(&mut self) -> io::Result<()> {
        let (port, path) = (self.port, Self::container_path());
        let ready = || {
            let Some(token) = token(port) else { return false };
            ask(port, "PUT", &path, &[("X-Auth-Token", &token)]).is_ok_and(|(status, _)| status / 100 == 2)
        };
        let Some(proxy) = self.servers.last_mut() else { return Ok(()) };
        let waited = proxy.wait_until(START_LIMIT, ready);
        waited.map_err(|error| {
            let logs = ["object", "container", "account"]
                .map(|name| fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default());
            io::Error::other(format!("{error}\n{}", logs.join("\n")))
        })
    }

    /// The folder of everything that it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A token for requests of a test's own.
    pub fn token(&self) -> io::Result<String> {
        token(self.port).ok_or_else(|| io::Error::other("Swift gives no token"))
    }

    /// The path of the container.
    pub fn container_path() -> String {
        format!("/v1/AUTH_test/{}", Self::CONTAINER)
    }

    /// Where clients sign in.
    pub fn auth_url(&self) -> String {
        format!("http://127.0.0.1:{}/auth/v1.0", self.port)
    }

    /// Forgets all tokens, as a service does that is started anew.
    pub fn forget_tokens(&self) -> io::Result<()> {
        use std::io::{BufRead, BufReader, Write};
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", self.memcached_port))?;
        socket.write_all(b"flush_all\r\n")?;
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer)?;
        if answer.trim() == "OK" { Ok(()) } else { Err(io::Error::other(answer)) }
    }
}

/// Signs in with TempAuth.
fn token(port: u16) -> Option<String> {
    let credentials = [("X-Auth-User", Swift::USER), ("X-Auth-Key", Swift::KEY)];
    let (status, answer) = ask(port, "GET", "/auth/v1.0", &credentials).ok()?;
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("x-auth-token:"))?;
    (status == 200).then(|| line.split_once(':').map(|(_, token)| token.trim().to_owned()))?
}

/// Fails with a reason where Swift would fail without one.
fn check_attributes(folder: &Path) -> io::Result<()> {
    let set = rustix::fs::setxattr(folder, "user.holdfast", b"x", rustix::fs::XattrFlags::empty());
    set.map_err(|error| {
        io::Error::other(format!(
            "{} has no extended attributes ({error}), which Swift needs: set TMPDIR to a folder on ext4, xfs or btrfs",
            folder.display()
        ))
    })
}

fn make_ring(root: &Path, name: &str, port: u16) -> io::Result<()> {
    let builder = format!("{name}.builder");
    let device = format!("r1z1-127.0.0.1:{port}/d1");
    let steps: [&[&str]; 3] = [&["create", "4", "1", "1"], &["add", &device, "1"], &["rebalance"]];
    for step in steps {
        let output = Command::new("swift-ring-builder").arg(&builder).args(step).current_dir(root).output()?;
        // 1 is a warning, such as that one device is not many.
        if output.status.code().is_none_or(|code| code > 1) {
            let said = String::from_utf8_lossy(&output.stdout);
            return Err(io::Error::other(format!("swift-ring-builder {builder} {step:?} failed: {said}")));
        }
    }
    Ok(())
}

fn storage_server(root: &Path, name: &str, port: u16) -> String {
    let (root, user) = (root.display(), user());
    format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nworkers = 0\nuser = {user}\nswift_dir = {root}\n\
         devices = {root}/node\nmount_check = false\ndisable_fallocate = true\nfallocate_reserve = 0\nlog_address = /dev/null\n\
         [pipeline:main]\npipeline = {name}-server\n[app:{name}-server]\nuse = egg:swift#{name}\n"
    )
}

fn proxy_server(root: &Path, port: u16, memcached: u16, options: SwiftOptions) -> String {
    let (root, user, life) = (root.display(), user(), options.token_seconds);
    // Patience: by itself it gives a memcached up for a minute that is slow on a busy machine, and all tokens with it. An interval of 0 is
    // what turns that off; a limit of 0 would give up at the first error. Of its usual two connections to the cache, one that was waited for in vain is lost.
    let cache = format!(
        "memcache_servers = 127.0.0.1:{memcached}\nmemcache_max_connections = 100\nconnect_timeout = 10\npool_timeout = 10\n\
         io_timeout = 10\nerror_suppression_interval = 0\n"
    );
    let filters = [
        ("catch_errors", "catch_errors", ""),
        ("gatekeeper", "gatekeeper", ""),
        ("healthcheck", "healthcheck", ""),
        ("cache", "memcache", &cache),
        ("listing_formats", "listing_formats", ""),
        ("bulk", "bulk", ""),
        ("tempauth", "tempauth", &format!("user_test_tester = testing .admin\ntoken_life = {life}\n")),
        ("copy", "copy", ""),
        ("container-quotas", "container_quotas", ""),
        ("account-quotas", "account_quotas", ""),
        ("slo", "slo", ""),
    ];
    let names: Vec<&str> = filters.iter().map(|(name, ..)| *name).collect();
    let mut text = format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nworkers = 0\nuser = {user}\nswift_dir = {root}\n\
         log_address = /dev/null\n[pipeline:main]\npipeline = {} proxy-server\n\
         [app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n",
        names.join(" ")
    );
    for (name, egg, more) in filters {
        text.extend(["[filter:", name, "]\nuse = egg:swift#", egg, "\n", more]);
    }
    text
}

/// The account in the configuration must be the one that the servers are started as.
fn user() -> String {
    if super::process::is_root() {
        return "nobody".to_owned();
    }
    let output = Command::new("id").arg("-un").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

fn start_memcached(root: &Path, port: u16) -> io::Result<Kept> {
    let program = find_program("memcached").ok_or_else(|| missing("memcached"))?;
    let (listens_on, port) = (port, port.to_string());
    let arguments = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-m", "16"].map(ToOwned::to_owned);
    let mut server = Kept::start("memcached", &program, &arguments, root, root.join("memcached.log"))?;
    // A proxy server that does not find it at once does not look for it again for a minute.
    server.wait_until(START_LIMIT, || TcpStream::connect((Ipv4Addr::LOCALHOST, listens_on)).is_ok())?;
    Ok(server)
}

fn start_server(root: &Path, name: &str) -> io::Result<Kept> {
    let program = format!("swift-{name}-server");
    let script = find_program(&program).ok_or_else(|| missing(&program))?;
    let file = |name: &str| root.join(name).display().to_string();
    let conf = file(&format!("{name}.conf"));
    let arguments = [file("run.py"), file("swift.conf"), script.display().to_string(), conf, "-v".to_owned()];
    // Debian's own Python, which has Swift, whatever comes first on the PATH.
    Kept::start(&program, &PathBuf::from("/usr/bin/python3"), &arguments, root, root.join(format!("{name}.log")))
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed, though scripts/need.sh swift succeeded"))
}
