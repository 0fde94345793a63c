//! The command line's shape.

use crate::commands::{
    account, audit, backup, bench, check, cluster, completion, config as config_command, function, job, man, migrate,
    mount_care, policy, publish, reclaim, restore, run, search, serve, share, site, space, tag, thumbnail_worker,
    token, top, transfer_args, trash, version,
};
use crate::config;
use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_server::ServerConfig;
use std::ffi::OsString;
use std::path::PathBuf;

/// A sealed, self-hosted drive.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line.
    ///
    /// The commands and their options take some 2 ms to describe, which is most of what `holdfast run` takes before its program starts; so it is read without the others. Help
    /// and mistakes are those of all.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::read_from(std::env::args_os().collect())
    }

    fn read_from(words: Vec<OsString>) -> Result<Self, clap::Error> {
        if words.get(1).is_some_and(|word| word == "run")
            && let Ok(RunAlone { common, command: OnlyRun::Run(line) }) = RunAlone::try_parse_from(&words)
        {
            return Ok(Self { common, command: Command::Run(line) });
        }
        Self::try_parse_from(words)
    }
}

/// The command line of `holdfast run`.
#[derive(Debug, Parser)]
#[command(name = "holdfast")]
struct RunAlone {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: OnlyRun,
}

#[derive(Debug, Subcommand)]
enum OnlyRun {
    Run(run::RunLine),
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print machine-readable output: one JSON document (or one a line, for commands that go on).
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log lines for people or as JSON.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatArg>,
    /// Log filter: error, warn, info, debug, trace, or by module: `info,holdfast_drive=debug`.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
}

/// Values of `--log-format`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl LogFormatArg {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
        }
    }
}

/// Where the drive is.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataArg {
    /// The drive's data directory.
    #[arg(long, value_name = "DIR", env = "HOLDFAST_DATA")]
    pub(crate) data: PathBuf,
    /// Configuration file instead of holdfast.toml in the data directory: it says which database and store the drive uses.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl DataArg {
    /// The configuration of the drive's server.
    pub(crate) fn config(&self) -> holdfast_base::Result<ServerConfig> {
        Ok(config::load(self.config.as_deref(), Some(&self.data), config::Flags::default())?.config)
    }
}

/// Whose command it is, for what needs an account's key.
#[derive(Debug, Clone, Args)]
pub(crate) struct UserArg {
    /// The account that acts.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// File with that account's password in its first line; - is standard input. Without it the terminal is asked.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a drive: WebDAV, API and pages.
    Serve(serve::ServeArgs),
    /// Make and change accounts.
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Make and change spaces and their members.
    #[command(subcommand)]
    Space(space::SpaceCommand),
    /// Make, list and revoke app tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// List and restore old versions of files.
    #[command(subcommand)]
    Version(version::VersionCommand),
    /// List, restore and empty the trash.
    #[command(subcommand)]
    Trash(trash::TrashCommand),
    /// Add, remove and list tags of files and folders.
    #[command(subcommand)]
    Tag(tag::TagCommand),
    /// Share folders with accounts, make links, and take both back.
    #[command(subcommand)]
    Share(share::ShareCommand),
    /// Find files and folders by name, path and tags.
    Search(search::SearchArgs),
    /// Make a space a local folder, through FUSE; look after such folders.
    Mount(mount_care::MountLine),
    /// Take a mount away, when everything in it is on disk.
    Umount(mount_care::UmountArgs),
    /// Move files and folders to a drive or folder.
    #[command(override_usage = "holdfast push [OPTIONS] <SRC>... <DEST>")]
    Push(transfer_args::MoveArgs),
    /// Move files and folders from a drive or folder.
    #[command(override_usage = "holdfast pull [OPTIONS] <SRC>... <DEST>")]
    Pull(transfer_args::MoveArgs),
    /// Make a folder of a drive or of this machine equal to another.
    Sync(transfer_args::SyncArgs),
    /// Run transfers that are described in files, by schedule.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Run a program that may do what a policy names, and nothing else; look after such programs.
    #[command(
        override_usage = "holdfast run --policy <FILE> [OPTIONS] -- <COMMAND>...\n       holdfast run <ps|freeze|thaw|kill|logs|policy|diff|patch|commit|discard> ..."
    )]
    Run(run::RunLine),
    /// Make folders functions, and call them: each call in a sandbox of its own.
    #[command(subcommand)]
    Function(function::FunctionCommand),
    /// Check, explain, convert and compare policies for such programs.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Publish a folder as a web site.
    Publish(publish::PublishArgs),
    /// List, roll back and change published sites.
    #[command(subcommand)]
    Site(site::SiteCommand),
    /// Prove a drive: every sum, every reference and, if asked, every stored byte.
    Check(check::CheckArgs),
    /// Give space back now that deleted content no longer needs.
    Reclaim(reclaim::ReclaimArgs),
    /// Copy a drive, in use or not, to another folder; the second time only what changed.
    Backup(backup::BackupArgs),
    /// Make a drive from a backup.
    Restore(restore::RestoreArgs),
    /// Look after several nodes that serve one drive.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show who did what: sign-ins, changes of accounts, spaces and sites.
    Audit(audit::AuditArgs),
    /// Show what the nodes do at the moment: operations, latencies, bytes, queues.
    Top(top::TopArgs),
    /// Move the catalogue to another database: SQLite or PostgreSQL. Every node must be stopped.
    MigrateCatalogue(migrate::CatalogueArgs),
    /// Copy the packs to another store, while the drive is in use or not, and prove each copy.
    MigrateStore(migrate::StoreArgs),
    /// Show the configuration.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Draw thumbnails for a server, confined to its two pipes.
    #[command(hide = true)]
    ThumbnailWorker(thumbnail_worker::ThumbnailWorkerArgs),
    /// Print a completion script for a shell.
    Completion(completion::CompletionArgs),
    /// Print the manual page, or write one a command to a folder.
    Man(man::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_is_read_as_among_all_commands() {
        let read = |read: Result<Cli, clap::Error>| match read {
            Ok(cli) => format!("{cli:?}"),
            Err(error) => error.to_string(),
        };
        for line in [
            "run --policy p -- true",
            "run --policy p --cow /a=/b --widen --audit - --audit-all --kill-after 3 --allow-degraded -- sh -c --help",
            "run --json ps",
            "run --policy p --log-level info true --policy q",
            "run --model m --rules r --mounted /d true",
            "run kill 7",
            "run policy set 7 file",
            "run --help",
            "run ps --help",
            "run help kill",
            "run",
            "run --polcy p true",
            "run --policy p --model m true",
            "run kil 7",
            "run --version",
            "run freeze x",
        ] {
            let words: Vec<_> = ["holdfast"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            assert_eq!(read(Cli::read_from(words.clone())), read(Cli::try_parse_from(words)), "{line}");
        }
    }

    #[test]
    fn an_option_may_stand_between_a_source_and_the_destination() {
        for (line, count) in [("push a --quiet b", 2), ("push a b --jobs 2 c", 3), ("push a", 1)] {
            let line = Cli::try_parse_from(["holdfast"].into_iter().chain(line.split(' '))).expect(line);
            let Command::Push(line) = line.command else { panic!("it is another command") };
            assert_eq!((line.places.len(), line.places().is_ok()), (count, count > 1));
        }
    }

    #[test]
    fn no_option_takes_a_password_itself() {
        fn walk(command: &clap::Command) {
            for argument in command.get_arguments() {
                let name = argument.get_id().as_str();
                assert!(!matches!(name, "password" | "token" | "secret" | "code"), "{} --{name}", command.get_name());
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }
}
