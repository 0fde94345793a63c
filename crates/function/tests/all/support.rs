//! A store in a folder of its own, and functions that are shell scripts.

use holdfast_function::{Call, Deployed, Function, Host, Name, Store, invoke_alone};
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What a shell needs of the machine.
pub(crate) const SYSTEM: &str = "default = \"deny\"\ndevices = [\"null\"]\n[files]\n\"/usr\" = \"read+exec\"\n\"/bin\" = \"read+exec\"\n\"/lib\" = \"read+exec\"\n\"/lib64\" = \"read+exec\"\n\"/etc/ld.so.cache\" = \"read\"\n";
/// Longest that something is waited for.
const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("store")).expect("a store");
        Self { folder, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A folder with a script, as `handler`, what the manifest says besides, and what the policy does.
    pub(crate) fn source(&self, name: &str, script: &str, manifest: &str, policy: &str) -> PathBuf {
        let source = self.path(name);
        fs::create_dir_all(&source).expect("a folder");
        fs::write(source.join("handler"), format!("#!/bin/sh\n{script}\n")).expect("a program");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(source.join("handler"), executable).expect("executable");
        let text = format!("command = \"./handler\"\npolicy = \"policy.toml\"\n{manifest}");
        fs::write(source.join("function.toml"), text).expect("a manifest");
        fs::write(source.join("policy.toml"), format!("{SYSTEM}{policy}")).expect("a policy");
        source
    }

    pub(crate) fn deploy(&self, name: &str, script: &str, manifest: &str, policy: &str) -> Deployed {
        let source = self.source(name, script, manifest, policy);
        self.store.deploy(&source, None).expect("deployed")
    }

    pub(crate) fn function(&self, name: &str) -> Arc<Function> {
        Arc::new(self.store.function(&named(name)).expect("a function"))
    }

    /// Calls it once, alone.
    pub(crate) fn call(&self, name: &str, input: &'static [u8]) -> Call {
        block_on(async { alone(&self.function(name), input).await.expect("a call") })
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(self.store.clone())
    }
}

pub(crate) async fn alone(function: &Arc<Function>, input: &'static [u8]) -> holdfast_base::Result<Call> {
    let (_stop, stopped) = watch::channel(false);
    let mut input = input;
    invoke_alone(Arc::clone(function), &mut input, stopped).await
}

/// Calls it in a process that stays.
pub(crate) async fn invoke(host: &Host, name: &str, input: &'static [u8]) -> holdfast_base::Result<Call> {
    host.invoke(&named(name), "ann", |_| Ok(()), input).await
}

pub(crate) fn named(name: &str) -> Name {
    name.parse().expect("a name")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
