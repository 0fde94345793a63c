//! Arguments of `holdfast push`, `pull` and `sync`.

use super::transfer_metrics::Metrics;
use crate::secret;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use holdfast_base::{Clock, Error, SystemClock, size};
use holdfast_drive::Tag;
use holdfast_transfer::address::Access;
use holdfast_transfer::drive::Plane;
use holdfast_transfer::filter::{parse_age, parse_moment};
use holdfast_transfer::options::{Compare, IfExists, Links};
use holdfast_transfer::other::Login;
use holdfast_transfer::{Bounds, Filter, Options, Patterns};
use std::path::PathBuf;
use std::time::Duration;

/// Sources, and a folder they arrive in.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// What is moved, and last the folder it arrives in, which is made if it is not there. Paths of this machine; addresses of drives
    /// (<https://drive.example.org/SPACE/PATH>), of servers of SFTP (<sftp://USER@HOST/PATH>) and FTP (ftp:, ftpes: or <ftps://USER@HOST/PATH>), of buckets
    /// (<s3://BUCKET/PREFIX>) and containers (<swift://CONTAINER/PREFIX>); dav: and the address of a WebDAV folder. Only to pull from: web: and the address
    /// of a file or folder of a web server, web-list: or metalink: and the path or address of a list of such files, attachments in a mailbox
    /// (<imaps://USER@HOST/MAILBOX>). Each arrives under its own
    /// name; SRC/. means what is in a folder.
    // One list, since options may stand between a source and the destination.
    #[arg(value_name = "PLACE", required = true)]
    pub(crate) places: Vec<String>,
    /// Remove each file and link from the source when the destination has it, durable, and the source is still what was read. Folders stay.
    #[arg(long)]
    pub(super) delete_source: bool,
    #[command(flatten)]
    pub(super) shared: SharedArgs,
}

impl MoveArgs {
    /// Sources, and the destination.
    pub(crate) fn places(&self) -> holdfast_base::Result<(&[String], &str)> {
        match self.places.split_last() {
            Some((destination, sources)) if !sources.is_empty() => Ok((sources, destination)),
            _ => Err(Error::invalid("there is no destination: a command names what is moved, and then where to")),
        }
    }
}

/// A folder, and another that becomes equal to it.
#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// The folder that is followed: a path of this machine, or an address as push and pull have it.
    #[arg(value_name = "SRC")]
    pub(super) source: String,
    /// The folder that becomes equal to it.
    #[arg(value_name = "DEST")]
    pub(super) destination: String,
    /// Remove at the destination what the source has not, when all else has succeeded. What a filter hides stays.
    #[arg(long)]
    pub(super) delete: bool,
    /// As --delete, though something else failed.
    #[arg(long)]
    pub(super) delete_anyway: bool,
    /// Let --delete remove everything if the source is empty.
    #[arg(long)]
    pub(super) delete_empty: bool,
    #[command(flatten)]
    pub(super) shared: SharedArgs,
}

/// Options of all three.
#[derive(Debug, Args)]
pub(super) struct SharedArgs {
    /// Show what would be done, and do nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print nothing but what fails.
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Write counters to this file now and then and at the end, for a Prometheus node exporter's folder of text files (its name ends in .prom).
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
    /// Compare files of the same size by their content, which both sides read, instead of by their time.
    #[arg(long)]
    checksum: bool,
    /// Leave alone what is not older at the destination.
    #[arg(long)]
    update: bool,
    /// Leave alone what is at the destination, whatever it is: the same as --if-exists skip.
    #[arg(long, conflicts_with = "if_exists")]
    ignore_existing: bool,
    /// What happens where something else is at the destination. keep-both lets the file arrive as "name (2)".
    #[arg(long, value_name = "POLICY", default_value = "replace")]
    if_exists: IfExistsArg,
    /// What happens to symbolic links: moved as links, or left out.
    #[arg(long, value_name = "copy|skip", default_value = "copy")]
    links: LinksArg,
    #[command(flatten)]
    filter: FilterArgs,
    /// Add a tag to each file that arrives in a drive. Can be repeated.
    #[arg(long, value_name = "TAG", value_parser = tag)]
    tag: Vec<Tag>,
    /// Bytes a second at most, of all files together: 10M, 500K.
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    limit_rate: Option<u64>,
    /// Files of more than 1 MiB that are moved at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    jobs: usize,
    /// Smaller files that are moved at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = RangedU64ValueParser::<usize>::new().range(1..=512))]
    small_jobs: usize,
    /// A file of which nothing arrives for this long is begun again, from where it got to: 60s, 5m.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = age)]
    stall: Duration,
    /// How long after its last progress a file is tried again: 1h, 2d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = age)]
    retry_for: Duration,
    #[command(flatten)]
    access: AccessArgs,
}

/// Which files.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Only what matches a glob, or is below a folder that does. Without a slash it is held against names, with one against the path below SRC; ** crosses slashes.
    /// Can be repeated.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out what matches a glob, with all that is below it. Can be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// As --include, by a regular expression that is looked for in the path below SRC.
    #[arg(long, value_name = "REGEX")]
    include_regex: Vec<String>,
    /// As --exclude, by a regular expression.
    #[arg(long, value_name = "REGEX")]
    exclude_regex: Vec<String>,
    /// Only files of at least this size: 10K, 1G.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    min_size: Option<u64>,
    /// Only files of at most this size.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_size: Option<u64>,
    /// Only files that changed after this: 2026-01-31, 2026-01-31T12:00:00Z, or an age like 7d.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    newer_than: Option<i64>,
    /// Only files that changed before this.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    older_than: Option<i64>,
}

/// How drives are reached.
#[derive(Debug, Args)]
struct AccessArgs {
    /// Drives: file with an app token in its first line; - is standard input.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Other sites: file with the password, or the secret half of a key, in its first line; - is standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Other sites: who signs in, if the address does not say.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// FTP: send the password though the server has no TLS, so that others can read it and all that is moved.
    #[arg(long)]
    plain_ftp: bool,
    /// SFTP: file with a private key.
    #[arg(long, short = 'i', value_name = "FILE")]
    identity: Option<PathBuf>,
    /// SFTP: believe the host key of a server of which none is known, and write it down where ssh has them.
    #[arg(long)]
    accept_new_host_key: bool,
    /// SFTP: configuration file of ssh, instead of ~/.ssh/config and the machine's.
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// S3: address of the service, Amazon's if there is none. Swift: address that signs in.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// S3 and Swift: the region.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Drives and other servers: PEM file of the certificates that are believed, instead of this machine's authorities.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Drives: transport. quic is for networks that lose, reorder or delay much; auto takes it where the server is far or much is lost, and it gets through, and whichever
    /// is faster once that is known.
    #[arg(long, value_name = "PLANE", default_value = "auto")]
    plane: PlaneArg,
    /// Drives and other sites: connections at a time. Without it as many as suit; to a drive over TCP as many as make it faster, 16 at most.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    connections: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IfExistsArg {
    Replace,
    Skip,
    KeepBoth,
    Fail,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LinksArg {
    Copy,
    Skip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlaneArg {
    Auto,
    Tcp,
    Quic,
}

fn bytes(text: &str) -> Result<u64, String> {
    size::parse_bytes(text).map_err(|error| error.to_string())
}

fn tag(text: &str) -> Result<Tag, String> {
    Tag::new(text).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    bytes(text).and_then(|rate| if rate == 0 { Err("nothing would ever arrive".into()) } else { Ok(rate) })
}

fn age(text: &str) -> Result<Duration, String> {
    let age = parse_age(text).map_err(|error| error.to_string())?;
    if age.is_zero() { Err("it cannot be nothing".into()) } else { Ok(age) }
}

fn moment(text: &str) -> Result<i64, String> {
    parse_moment(text, SystemClock.now_ms().saturating_mul(1_000_000)).map_err(|error| error.to_string())
}

impl SharedArgs {
    pub(super) fn options(&self) -> holdfast_base::Result<Options> {
        Ok(Options {
            compare: if self.checksum { Compare::Content } else { Compare::SizeAndTime },
            if_exists: match self.if_exists {
                _ if self.ignore_existing => IfExists::Skip,
                IfExistsArg::Replace => IfExists::Replace,
                IfExistsArg::Skip => IfExists::Skip,
                IfExistsArg::KeepBoth => IfExists::KeepBoth,
                IfExistsArg::Fail => IfExists::Fail,
            },
            update: self.update,
            links: match self.links {
                LinksArg::Copy => Links::Copy,
                LinksArg::Skip => Links::Skip,
            },
            dry_run: self.dry_run,
            filter: self.filter.compile()?,
            large_files: self.jobs,
            small_files: self.small_jobs,
            stall: self.stall,
            retry_for: self.retry_for,
            rate: self.limit_rate,
            tags: self.tag.clone(),
            ..Options::default()
        })
    }

    pub(super) fn metrics(&self) -> Option<Metrics> {
        self.metrics_file.clone().map(Metrics::new)
    }

    pub(super) fn access(&self) -> anyhow::Result<Access> {
        let AccessArgs {
            token_file,
            password_file,
            user,
            plain_ftp,
            identity,
            accept_new_host_key,
            ssh_config,
            endpoint,
            region,
            ca,
            plane,
            connections,
        } = &self.access;
        let plane = match plane {
            PlaneArg::Auto => None,
            PlaneArg::Tcp => Some(Plane::Tcp),
            PlaneArg::Quic => Some(Plane::Quic),
        };
        let token = token_file.as_deref().map(secret::from_file).transpose()?;
        let login = Login {
            user: user.clone(),
            password: password_file.as_deref().map(secret::from_file).transpose()?,
            identity: identity.clone(),
            ssh_config: ssh_config.clone(),
            accept_new_host_key: *accept_new_host_key,
            ca: ca.clone(),
            plain_ftp: *plain_ftp,
            endpoint: endpoint.clone(),
            region: region.clone(),
            connections: *connections,
        };
        Ok(Access { token, ca: ca.clone(), plane, connections: *connections, login })
    }
}

impl FilterArgs {
    fn compile(&self) -> holdfast_base::Result<Filter> {
        let patterns = |globs: &Vec<String>, expressions: &Vec<String>| Patterns {
            globs: globs.clone(),
            expressions: expressions.clone(),
        };
        let include = patterns(&self.include, &self.include_regex);
        let exclude = patterns(&self.exclude, &self.exclude_regex);
        let bounds = Bounds {
            min_size: self.min_size,
            max_size: self.max_size,
            newer_than_ns: self.newer_than,
            older_than_ns: self.older_than,
        };
        Filter::new(&include, &exclude, bounds)
    }
}
