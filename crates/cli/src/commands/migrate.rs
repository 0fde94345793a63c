//! `holdfast migrate-catalogue` and `holdfast migrate-store`.

use crate::args::DataArg;
use crate::local::Local;
use crate::output::show;
use clap::Args;
use holdfast_base::Error;
use holdfast_base::size::format_bytes;
use holdfast_blob::migrate::MigrateOptions;
use holdfast_meta::migrate::Progress;
use holdfast_server::engines::CatalogueConfig;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct CatalogueArgs {
    #[command(flatten)]
    data: DataArg,
    /// The other database, `postgres://ACCOUNT@HOST/DATABASE` or `sqlite:FILE`: empty, or with a part of the same copy.
    #[arg(long, value_name = "URL")]
    to: String,
    /// File with the other database account's password; without it, PGPASSWORD.
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<PathBuf>,
    /// Certificates of those who vouch for the other database's server.
    #[arg(long, value_name = "FILE")]
    to_ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    data: DataArg,
    /// Compare packs that are in the new store already, too.
    #[arg(long)]
    verify: bool,
}

/// Moves the catalogue.
pub(crate) async fn catalogue(args: CatalogueArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let _lock = local.alone().await?;
    if local.directory.changes_wait()? {
        return Err(Error::conflict(
            "a mount that was killed left changes that only its journal has: mount its space once, or start the server once, and then migrate",
        )
        .into());
    }
    let to =
        CatalogueConfig { url: Some(args.to.clone()), password_file: args.to_password_file, ca_file: args.to_ca_file };
    let to = to.open(&local.directory).await?;
    let mut line = Line::default();
    let mut tell = |progress: Progress| {
        let verb = if progress.comparing { "comparing" } else { "copying" };
        line.tell(|| format!("{verb} {}: {} rows", progress.table, progress.rows));
    };
    let migrated = holdfast_meta::migrate::migrate(local.opened.database(), to.database(), &mut tell).await;
    line.end();
    let migrated = migrated?;
    to.close().await?;
    local.close().await?;
    let report = json!({ "rows_copied": migrated.copied, "rows_compared": migrated.compared, "to": args.to });
    show(json, &report, |_| {
        format!(
            "{} rows copied, {} compared: both catalogues are the same.\n\
             Set catalogue.url to {:?} on every node before the next start. The old catalogue is left as it is: remove it when \
             you are sure, and do not start on it again.\n",
            migrated.copied, migrated.compared, args.to
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Copies the packs.
pub(crate) async fn store(args: StoreArgs, json: bool) -> anyhow::Result<ExitCode> {
    let local = Local::open(&args.data).await?;
    let (from, to) = local.config.store.open_apart(&local.directory).await?;
    let options = MigrateOptions { verify_present: args.verify, ..MigrateOptions::default() };
    let mut line = Line::default();
    let progress = holdfast_blob::migrate::migrate(&*from, &*to, options, |progress| {
        line.tell(|| {
            // Names are random, so the name that is reached says how much of all is done.
            let done =
                progress.up_to.map_or(0.0, |name| f64::from(u16::from_be_bytes([name.0[0], name.0[1]])) / 655.36);
            format!("{} packs, {} copied, about {done:.0} %", progress.copied, format_bytes(progress.copied_bytes))
        });
    })
    .await;
    line.end();
    let progress = progress?;
    local.close().await?;
    let report = json!({ "packs_copied": progress.copied, "bytes_copied": progress.copied_bytes,
        "packs_present": progress.present, "packs_removed_meanwhile": progress.removed });
    show(json, &report, |_| {
        format!(
            "{} packs ({}) copied and proved, {} were there.\n\
             Everything is in the new store: take store.from out of the configuration of every node and start them again. The old \
             store is left as it is.\n",
            progress.copied,
            format_bytes(progress.copied_bytes),
            progress.present
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A line of progress on a terminal, written over by the next.
#[derive(Default)]
struct Line {
    told: Option<Instant>,
}

impl Line {
    fn tell(&mut self, text: impl FnOnce() -> String) {
        if std::io::stderr().is_terminal() && self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            self.told = Some(Instant::now());
            eprint!("\r\x1b[2K{}", text());
        }
    }

    fn end(&self) {
        if self.told.is_some() {
            eprint!("\r\x1b[2K");
        }
    }
}
