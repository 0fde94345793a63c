//! `holdfast bench catalogue`: what an operation of the catalogue costs as the drive grows.
//!
//! One space is filled with trees of folders of 1,000 files, and at each size that was asked for the same operations are timed one by one, at
//! random places of the whole space: so neither database lives off what it has just touched. The first tree is written file by
//! file; the others are copies of it, which share contents, as copies do. The time of an operation is that of its caller, commit
//! and sync included.

mod search;

use crate::output::{show, table};
use anyhow::{Context, bail};
use clap::Args;
use holdfast_base::{AccountId, DrivePath, Result, SpaceId, Uid};
use holdfast_meta::sqlite::{self, SqliteCatalogue};
use holdfast_meta::{Catalogue, Expect, Guard, NewAccount, NewContent, Node, Relocation};
use holdfast_server::engines::CatalogueConfig;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Files of a folder.
const FILES: u64 = 1_000;
/// Folders of a whole tree: with their files, and the tree itself, [`TREE_NODES`].
const FOLDERS: u64 = 100;
/// Nodes of a whole tree.
const TREE_NODES: u64 = 1 + FOLDERS * (1 + FILES);
/// Callers that fill the first folder at once.
const CALLERS: u64 = 16;
/// What a file's sealed content takes in the catalogue.
const INLINE_BYTES: usize = 512;
/// Times that what touches a whole folder or tree is run.
const LARGE_OPERATIONS: usize = 30;

#[derive(Debug, Args)]
pub(crate) struct CatalogueBenchArgs {
    /// Where to make the catalogue: an empty folder (SQLite), or the postgres:// URL of an empty database
    #[arg(value_name = "FOLDER|URL")]
    on: String,

    /// File with the database account's password in its first line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Certificates (PEM) of those who vouch for the database server
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Files and folders at which to measure, rising
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10000,1000000,10000000")]
    nodes: Vec<u64>,

    /// Times each operation on one file is run at each size
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    operations: usize,

    /// Seed of the random places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    database: &'static str,
    sizes: Vec<AtSize>,
}

/// The cost of operations at one size.
#[derive(Debug, Serialize)]
struct AtSize {
    /// Files and folders when the measuring began.
    nodes: u64,
    /// Seconds it took to get there from the size before.
    filled_s: f64,
    /// Seconds it took to index those for search.
    indexed_s: f64,
    operations: Vec<Cost>,
}

#[derive(Debug, Serialize)]
struct Cost {
    operation: &'static str,
    samples: usize,
    median_us: f64,
    p99_us: f64,
}

/// Runs it.
pub(crate) async fn run(args: CatalogueBenchArgs, json: bool) -> anyhow::Result<ExitCode> {
    if !args.nodes.is_sorted() || args.nodes.first().is_none_or(|nodes| *nodes < 10 * FILES) || args.operations == 0 {
        bail!(holdfast_base::Error::invalid(format!(
            "--nodes are sizes that rise, from {} on, and --operations at least one",
            10 * FILES
        )));
    }
    let findings = if args.on.contains("://") {
        let config =
            CatalogueConfig { url: None, password_file: args.password_file.clone(), ca_file: args.ca_file.clone() };
        let catalogue = Arc::new(config.connect(&args.on).await?);
        let sizes = measure(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>), &args, json).await?;
        catalogue.close().await?;
        Findings { database: "postgres", sizes }
    } else {
        let catalogue = Arc::new(open_sqlite(Path::new(&args.on))?);
        let sizes = measure(&(Arc::clone(&catalogue) as Arc<dyn Catalogue>), &args, json).await?;
        catalogue.close().await?;
        Findings { database: "sqlite", sizes }
    };
    show(json, &findings, words)?;
    Ok(ExitCode::SUCCESS)
}

fn open_sqlite(folder: &Path) -> anyhow::Result<SqliteCatalogue> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    Ok(SqliteCatalogue::open(&folder.join("catalogue.db"), &sqlite::Options::default())?)
}

async fn measure(
    catalogue: &Arc<dyn Catalogue>,
    args: &CatalogueBenchArgs,
    quiet: bool,
) -> anyhow::Result<Vec<AtSize>> {
    let mut field = Field::new(Arc::clone(catalogue), args.seed).await?;
    let mut sizes = Vec::new();
    for nodes in &args.nodes {
        let began = Instant::now();
        field.grow(*nodes).await?;
        let filled_s = began.elapsed().as_secs_f64();
        let indexed_s = field.index().await?.as_secs_f64();
        if !quiet {
            eprintln!("{} nodes, filled in {filled_s:.1} s, indexed in {indexed_s:.1} s", field.nodes());
        }
        let mut operations = field.costs(args.operations).await?;
        operations.extend(field.search_costs(args.operations).await?);
        sizes.push(AtSize { nodes: field.nodes(), filled_s, indexed_s, operations });
    }
    Ok(sizes)
}

/// A space full of trees.
struct Field {
    catalogue: Arc<dyn Catalogue>,
    account: AccountId,
    space: SpaceId,
    /// Folders of the first tree.
    folders: u64,
    /// Whole trees, the first one included.
    trees: u64,
    random: u64,
    /// Names given so far, none twice.
    names: u64,
}

impl Field {
    async fn new(catalogue: Arc<dyn Catalogue>, seed: u64) -> anyhow::Result<Self> {
        if !catalogue.accounts().await?.is_empty() {
            bail!(holdfast_base::Error::conflict("this catalogue is in use: measuring takes an empty one"));
        }
        let new = NewAccount {
            uid: Uid([1; 16]),
            name: "bench".to_owned(),
            admin: false,
            public_key: [0; 32],
            quota_bytes: None,
            slots: Vec::new(),
            home_uid: Uid([2; 16]),
            home_wrapped_key: vec![0; 80],
            now_ms: 1,
        };
        let account = catalogue.create_account(new).await?.id;
        let (space, _) = catalogue.space_by_name("bench", account).await?.context("the account has no home")?;
        let field = Self { catalogue, account, space: space.id, folders: 0, trees: 1, random: seed, names: 0 };
        field.folder("t0").await?;
        Ok(field)
    }

    const fn nodes(&self) -> u64 {
        1 + self.folders * (1 + FILES) + (self.trees - 1) * TREE_NODES
    }

    /// Fills it up to so many nodes, by whole folders and then whole trees.
    async fn grow(&mut self, nodes: u64) -> anyhow::Result<()> {
        if self.folders == 0 {
            self.first_folder().await?;
            self.hide_needles().await?;
        }
        while self.folders < FOLDERS && self.nodes() + FILES < nodes {
            self.copy("t0/d0", &format!("t0/d{}", self.folders)).await?;
            self.folders += 1;
        }
        while self.nodes() + TREE_NODES / 2 < nodes {
            self.copy("t0", &format!("t{}", self.trees)).await?;
            self.trees += 1;
        }
        Ok(())
    }

    async fn first_folder(&mut self) -> anyhow::Result<()> {
        self.folder("t0/d0").await?;
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let (catalogue, space, guard) = (Arc::clone(&self.catalogue), self.space, self.guard());
            tasks.spawn(async move {
                for file in (caller..FILES).step_by(usize::try_from(CALLERS).unwrap_or(1)) {
                    let path = DrivePath::parse(&format!("t0/d0/f{file}"))?;
                    put(&*catalogue, space, &path, &guard).await?;
                }
                Ok::<_, holdfast_base::Error>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        self.folders = 1;
        Ok(())
    }

    /// Times every operation.
    async fn costs(&mut self, operations: usize) -> anyhow::Result<Vec<Cost>> {
        let large = LARGE_OPERATIONS.min(operations);
        let mut samples: [(&'static str, Vec<Duration>); 9] = [
            ("commit alone", Vec::new()),
            ("find a file", Vec::new()),
            ("make a file", Vec::new()),
            ("move a file", Vec::new()),
            ("remove a file", Vec::new()),
            ("list 1,000", Vec::new()),
            ("copy 1,000", Vec::new()),
            ("move a tree", Vec::new()),
            ("remove 1,000", Vec::new()),
        ];
        // What was filled in is to be on disk, and not to be written while operations wait for their own syncs.
        rustix::fs::sync();
        let [commit, find, make, relocate, remove, list, copy, tree, remove_folder] = &mut samples;
        for _ in 0..operations {
            let began = Instant::now();
            self.catalogue.ping().await?;
            commit.1.push(began.elapsed());
        }
        for _ in 0..operations {
            let path = DrivePath::parse(&format!("{}/f{}", self.any_folder(), self.below(FILES)))?;
            let began = Instant::now();
            let found = self.catalogue.find(self.space, &path, true).await?;
            find.1.push(began.elapsed());
            found.content.with_context(|| format!("{path} is lost"))?;
        }
        for _ in 0..operations {
            let (here, there) = (self.new_path()?, self.new_path()?);
            let guard = self.guard();
            let began = Instant::now();
            put(&*self.catalogue, self.space, &here, &guard).await?;
            make.1.push(began.elapsed());
            let began = Instant::now();
            self.relocate(&here, &there).await?;
            relocate.1.push(began.elapsed());
            let began = Instant::now();
            self.catalogue.remove(self.space, &there, &guard).await?;
            remove.1.push(began.elapsed());
        }
        for _ in 0..large {
            let folder = self.any_folder();
            let id = self.node(&folder).await?.id;
            let began = Instant::now();
            let members = self.catalogue.children(id, None, usize::MAX).await?.len();
            list.1.push(began.elapsed());
            if members as u64 != FILES {
                bail!("{folder} has {members} members instead of {FILES}");
            }
            let copied = format!("copy{}", self.name());
            let began = Instant::now();
            self.copy(&folder, &copied).await?;
            copy.1.push(began.elapsed());
            let began = Instant::now();
            self.catalogue.remove(self.space, &DrivePath::parse(&copied)?, &self.guard()).await?;
            remove_folder.1.push(began.elapsed());
            let (here, there) = (format!("t{}", self.below(self.trees)), format!("moved{}", self.name()));
            let (here, there) = (DrivePath::parse(&here)?, DrivePath::parse(&there)?);
            let began = Instant::now();
            self.relocate(&here, &there).await?;
            tree.1.push(began.elapsed());
            self.relocate(&there, &here).await?;
        }
        self.empty_trash().await?;
        Ok(samples.into_iter().map(|(operation, times)| cost(operation, times)).collect())
    }

    /// What was removed is not to be found at the next size.
    async fn empty_trash(&self) -> Result<()> {
        self.catalogue.purge_trash(self.space, None).await?;
        while self.catalogue.release_garbage(4_096).await? > 0 {}
        Ok(())
    }

    fn guard(&self) -> Guard {
        Guard {
            account: self.account,
            expect: Expect::Any,
            tokens: Vec::new(),
            through: Vec::new(),
            now_ms: 1,
            mount: 0,
        }
    }

    async fn folder(&self, at: &str) -> Result<()> {
        self.catalogue.make_folder(self.space, &DrivePath::parse(at)?, &self.guard()).await.map(drop)
    }

    async fn node(&self, at: &str) -> anyhow::Result<Node> {
        let path = DrivePath::parse(at)?;
        let found = self.catalogue.find(self.space, &path, false).await?;
        found.node(&path).cloned().with_context(|| format!("{at} is lost"))
    }

    async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let relocation = self.relocation(&DrivePath::parse(from)?, &DrivePath::parse(to)?);
        self.catalogue.copy(&relocation, &self.guard()).await.map(drop)
    }

    async fn relocate(&self, from: &DrivePath, to: &DrivePath) -> Result<()> {
        self.catalogue.relocate(&self.relocation(from, to), &self.guard()).await.map(drop)
    }

    fn relocation(&self, from: &DrivePath, to: &DrivePath) -> Relocation {
        Relocation {
            space: self.space,
            from: from.clone(),
            to: to.clone(),
            overwrite: false,
            deep: true,
            source_expect: Expect::Any,
            tags: Vec::new(),
        }
    }

    /// A folder of 1,000 files, anywhere.
    fn any_folder(&mut self) -> String {
        let tree = self.below(self.trees);
        format!("t{tree}/d{}", self.below(self.folders))
    }

    /// A path in any folder that nothing has.
    fn new_path(&mut self) -> Result<DrivePath> {
        DrivePath::parse(&format!("{}/new{}", self.any_folder(), self.name()))
    }

    const fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// A number below a limit: `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    const fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

async fn put(catalogue: &dyn Catalogue, space: SpaceId, path: &DrivePath, guard: &Guard) -> Result<()> {
    let content = NewContent::Inline { size: 480, nonce: [1; 16], tag: [2; 16], sealed: vec![3; INLINE_BYTES] };
    let made = catalogue.commit_file(space, path, content, guard.now_ms, guard).await?;
    made.map(drop).map_err(|_| holdfast_base::Error::internal("content in the catalogue misses blocks"))
}

fn cost(operation: &'static str, mut times: Vec<Duration>) -> Cost {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    Cost { operation, samples: times.len(), median_us: at(50), p99_us: at(99) }
}

/// A line for each operation, a column for each size; beside them how much the last costs in terms of the first.
fn words(findings: &Findings) -> String {
    let (Some(first), Some(last)) = (findings.sizes.first(), findings.sizes.last()) else { return String::new() };
    let mut heading = vec![format!("{} (median / p99)", findings.database)];
    heading.extend(findings.sizes.iter().map(|size| format!("{} NODES", size.nodes)));
    heading.push("LAST / FIRST".to_owned());
    let mut rows = Vec::new();
    for (number, (small, large)) in first.operations.iter().zip(&last.operations).enumerate() {
        let mut row = vec![small.operation.to_owned()];
        let costs = findings.sizes.iter().filter_map(|size| size.operations.get(number));
        row.extend(costs.map(|cost| format!("{} / {}", time(cost.median_us), time(cost.p99_us))));
        row.push(format!("{:.2}", large.median_us / small.median_us));
        rows.push(row);
    }
    let logarithms = (last.nodes as f64).ln() / (first.nodes as f64).ln();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    format!("{}the logarithm of the number of nodes grew to {logarithms:.2} times\n", table(&heading, &rows))
}

fn time(microseconds: f64) -> String {
    if microseconds < 1_000.0 { format!("{microseconds:.0} µs") } else { format!("{:.2} ms", microseconds / 1e3) }
}
