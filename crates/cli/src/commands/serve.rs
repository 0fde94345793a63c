//! `holdfast serve`.

use super::block_on;
use super::serve_mounts::ServedMounts;
use crate::args::Common;
use crate::config::{self, Flags};
use crate::output;
use clap::Args;
use holdfast_auth::NewPerson;
use holdfast_base::Error;
use holdfast_server::address_file::AddressFile;
use holdfast_server::tls::Certificate;
use holdfast_server::{
    DataDir, LocalDrive, ServedFunctions, ServedJobs, Server, ServerConfig, Setting, Wish, telemetry,
};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Options of `holdfast serve`. Each is a setting of the configuration as well.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Data directory; it is made if there is nothing there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address to listen on; may be repeated. Port 0 is any free one. http:// or https:// before it decides about TLS.
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Write the bound addresses to this file when ready, one URL a line.
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// Address to serve published sites on, and nothing else; may be repeated.
    #[arg(long, value_name = "ADDR")]
    sites_listen: Vec<String>,
    /// Certificate with its intermediates, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Make and use a self-signed certificate; its fingerprint is printed.
    #[arg(long, conflicts_with = "tls_cert")]
    tls_self_signed: bool,
    /// Host name or address for the self-signed certificate; may be repeated.
    #[arg(long, value_name = "NAME")]
    tls_name: Vec<String>,
    /// Serve Prometheus metrics on this address.
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<String>,
    /// Accept passwords over unencrypted connections from other machines.
    #[arg(long)]
    allow_plain_http: bool,
    /// Network of a reverse proxy whose X-Forwarded-For and -Proto are believed; may be repeated.
    #[arg(long, value_name = "CIDR")]
    trusted_proxy: Vec<String>,
    /// Mount a space on a folder of this machine while the server runs; may be repeated.
    #[arg(long, value_name = "SPACE=DIR")]
    mount: Vec<String>,
    /// The account that acts in mounts: it must be a member of their spaces.
    #[arg(long, value_name = "NAME")]
    mount_user: Option<String>,
    /// File with that account's password in its first line.
    #[arg(long, value_name = "FILE")]
    mount_password_file: Option<PathBuf>,
    /// Job file, or folder of job files, whose transfers the server runs by schedule; may be repeated.
    #[arg(long, value_name = "FILE")]
    jobs: Vec<PathBuf>,
    /// Folder of functions that the server calls, as `holdfast function deploy` fills it.
    #[arg(long, value_name = "DIR")]
    functions: Option<PathBuf>,
    /// Configuration file instead of holdfast.toml in the data directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// If the drive has no account yet, make an administrator of this name and show its password once.
    #[arg(long, value_name = "NAME")]
    init_admin: Option<String>,
}

impl ServeArgs {
    pub(crate) fn flags(&self, common: &Common) -> anyhow::Result<Flags> {
        let path = |path: &Option<PathBuf>| -> anyhow::Result<Option<String>> {
            let Some(path) = path else { return Ok(None) };
            let text = path.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", path.display())))?;
            Ok(Some(text.to_owned()))
        };
        let list = |items: &[String]| (!items.is_empty()).then(|| items.to_vec());
        let mut flags = Flags::default();
        flags.set("data", path(&self.data)?);
        flags.set("listen", list(&self.listen));
        flags.set("sites.listen", list(&self.sites_listen));
        flags.set("address_file", path(&self.address_file)?);
        flags.set("tls.cert", path(&self.tls_cert)?);
        flags.set("tls.key", path(&self.tls_key)?);
        flags.set("tls.self_signed", self.tls_self_signed.then_some(true));
        flags.set("tls.names", list(&self.tls_name));
        flags.set("metrics_listen", self.metrics_listen.clone());
        flags.set("allow_plain_http", self.allow_plain_http.then_some(true));
        flags.set("trusted_proxies", list(&self.trusted_proxy));
        flags.set("mounts.spaces", list(&self.mount));
        flags.set("mounts.user", self.mount_user.clone());
        flags.set("mounts.password_file", path(&self.mount_password_file)?);
        let jobs =
            self.jobs.iter().map(|file| path(&Some(file.clone()))).collect::<anyhow::Result<Option<Vec<_>>>>()?;
        flags.set("jobs.files", jobs.filter(|jobs| !jobs.is_empty()));
        flags.set("functions.folder", path(&self.functions)?);
        flags.set("log.format", common.log_format.map(|format| format.name().to_owned()));
        flags.set("log.level", common.log_level.clone());
        Ok(flags)
    }
}

/// Runs it until it is told to stop.
pub(crate) fn run(args: ServeArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let flags = args.flags(common)?;
    let merged = config::load(args.config.as_deref(), args.data.as_deref(), flags)?;
    telemetry::init(&merged.config.log)?;
    let settings = merged.settings().into_iter();
    let settings = settings.map(|it| Setting { key: it.key, value: it.value, origin: it.origin }).collect();
    block_on(serve(merged.config, settings, args.init_admin, common.json))
}

async fn serve(
    config: ServerConfig,
    settings: Vec<Setting>,
    init_admin: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let data = config.data.as_deref().ok_or_else(|| {
        Error::invalid("where is the drive? Give --data DIR (or HOLDFAST_DATA, or data in the configuration file)")
    })?;
    let directory = DataDir::open_or_init(data)?;
    let certificate = match config.tls.files(&directory.tls())? {
        Some((cert, key)) => Some(Certificate::load(cert, key)?),
        None => None,
    };
    let drive = LocalDrive::open(directory, &config).await?;
    let fingerprint = certificate.as_ref().map(|certificate| certificate.fingerprint());
    // Whatever happens after this, the drive is closed in good order.
    let outcome = async {
        // Before the address file says that the server is ready.
        if let Some(name) = init_admin {
            first_account(&drive, name, json).await?;
        }
        // So that every face shows what mounts that were killed had answered.
        holdfast_mount::recover(drive.engine(), &drive.directory().mounts()).await?;
        drive.seal_left().await?;
        let mut jobs = ServedJobs::read(drive.engine(), &config.jobs)?;
        let desk = jobs.as_ref().map(ServedJobs::desk);
        let functions = ServedFunctions::start(&config.functions)?;
        let host = functions.as_ref().map(ServedFunctions::host);
        let mounts = ServedMounts::start(&drive, &config.mounts).await?;
        let started =
            drive.faces(&config, settings, desk, host).and_then(|faces| Server::start(&config, faces, certificate));
        let server = match started {
            Ok(server) => server,
            Err(error) => {
                mounts.stop().await;
                return Err(error.into());
            }
        };
        // Only `publish` and `site` look for it: no reason for a full or failing disk to stop the drive.
        let address = AddressFile::write(&drive.directory().address_file(), server.bound());
        let _address = address.inspect_err(|error| tracing::warn!(%error, "commands will not find this server"));
        announce(&server, &drive, fingerprint.as_deref(), json);
        let addresses: Vec<String> = server.bound().iter().map(holdfast_server::listen::Bound::url).collect();
        // It is for `cluster status`: no reason for a database that is busy to stop the drive.
        if let Err(error) = drive.engine().listens_on(&addresses).await {
            tracing::warn!(%error, "where this node listens could not be noted");
        }
        if let Some(jobs) = &mut jobs {
            jobs.start();
        }
        let hear = |wish| match (wish, &jobs) {
            (Wish::Reclaim, _) => drive.jobs().reclaim_now(),
            (Wish::Reload, Some(jobs)) => jobs.reload(),
            (Wish::Stop, Some(jobs)) => jobs.begin_to_stop(),
            (Wish::Reload | Wish::Stop, None) => {}
        };
        let whole = server.run(hear).await;
        if let Some(functions) = functions {
            // Whoever asked has been answered, or was cut off.
            functions.stop(Duration::ZERO).await;
        }
        if let Some(jobs) = jobs {
            jobs.stop(config.limits.drain_timeout()).await;
        }
        anyhow::Ok(mounts.stop().await && whole)
    }
    .await;
    let closed = drive.close().await;
    let whole = outcome?;
    closed?;
    tracing::info!(whole, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// Makes the first administrator, if there is no account at all.
async fn first_account(drive: &LocalDrive, name: String, json: bool) -> anyhow::Result<()> {
    let accounts = drive.accounts();
    if !accounts.list().await?.is_empty() {
        return Ok(());
    }
    let created = accounts.create(NewPerson { name, admin: true, ..NewPerson::default() }).await?;
    let name = &created.account.name;
    let password = created.generated_password.as_ref().map_or("", |password| password.expose());
    let code = created.recovery_code.expose();
    if json {
        output::print(
            &json!({"event": "account", "name": name, "password": password, "recovery_code": code}).to_string(),
        );
    } else {
        output::print(&format!(
            "\nThe first administrator. This is shown once: write it down now.\n\
             \n  name           {name}\n  password       {password}\n  recovery code  {code}\n\
             \nThe recovery code replaces a forgotten password. Without both, the content cannot be read by anybody.\n"
        ));
    }
    Ok(())
}

/// Tells that the server is ready, and where.
fn announce(server: &Server, drive: &LocalDrive, fingerprint: Option<&str>, json: bool) {
    let addresses: Vec<String> = server.bound().iter().map(holdfast_server::listen::Bound::url).collect();
    let sites: Vec<String> = server.sites_bound().iter().map(holdfast_server::listen::Bound::url).collect();
    let metrics = server.metrics_bound().map(|bound| bound.url() + "/metrics");
    let data = drive.directory().root().display();
    if json {
        let ready = json!({"event": "ready", "addresses": addresses, "sites": sites, "metrics": metrics, "data": data.to_string(),
            "tls_sha256": fingerprint, "process": std::process::id()});
        output::print(&ready.to_string());
        return;
    }
    let mut text = String::from("Holdfast is ready.\n\n");
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<13}  {value}");
    };
    for address in &addresses {
        line("address", &format!("{address}/"));
        line("WebDAV", &format!("{address}/dav/"));
    }
    for address in &sites {
        line("sites", &format!("{address}/"));
    }
    if let Some(fingerprint) = fingerprint {
        line("certificate", &format!("SHA-256 {fingerprint}"));
    }
    if let Some(metrics) = metrics {
        line("metrics", &metrics);
    }
    line("data", &data.to_string());
    text.push_str("\nThe page at the address says how to connect. Stop with Ctrl-C.\n");
    output::print(&text);
}
