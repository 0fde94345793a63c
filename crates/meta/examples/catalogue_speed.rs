//! Operations per second of the catalogue: small files made, found and removed by several callers at once, and a large
//! folder listed.
//!
//! `cargo run --release -p holdfast-meta --example catalogue_speed -- [FOLDER | postgres] [FILES] [CALLERS]`
//!
//! With `postgres` in place of a folder, on a PostgreSQL server of its own that syncs its commits, in the folder for temporary files.
//! Each make is one durable operation: node, content with 4 KiB sealed inline, usage. FOLDER should be on the disk that is
//! to be measured; a folder beside the target directory is used by default and removed again.

use holdfast_base::{AccountId, DrivePath, NodeName, SpaceId, Uid};
use holdfast_meta::postgres::{self, PostgresCatalogue};
use holdfast_meta::sqlite::{self, SqliteCatalogue};
use holdfast_meta::{Catalogue, Expect, Guard, NewAccount, NewContent};
use holdfast_testkit::postgres::{Durability, PostgresServer};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const INLINE_BYTES: usize = 4_096 + 40;
const FOLDERS: usize = 16;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(|| PathBuf::from("target/throughput"), PathBuf::from);
    let files: usize = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let callers: usize = arguments.next().map_or(Ok(8), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if folder.as_os_str() == "postgres" {
        let server = PostgresServer::start(Durability::Disk)?;
        let url = server.database()?;
        return runtime.block_on(async {
            let catalogue = Arc::new(PostgresCatalogue::connect(&url, &postgres::Options::default()).await?);
            measure(Arc::clone(&catalogue) as Arc<dyn Catalogue>, files, callers).await?;
            Ok(catalogue.close().await?)
        });
    }
    std::fs::create_dir_all(&folder)?;
    runtime.block_on(async {
        let catalogue = Arc::new(SqliteCatalogue::open(&folder.join("catalogue.db"), &sqlite::Options::default())?);
        measure(Arc::clone(&catalogue) as Arc<dyn Catalogue>, files, callers).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(catalogue.close().await?)
    })?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn measure(catalogue: Arc<dyn Catalogue>, files: usize, callers: usize) -> Outcome<()> {
    let (account, space) = prepare(&catalogue).await?;
    let each = files / callers;
    for round in 0..2 {
        run("make", &catalogue, callers, each, move |catalogue, caller, index| async move {
            let content = NewContent::Inline {
                size: 4_096,
                nonce: [7; 16],
                tag: [9; 16],
                sealed: vec![u8::try_from(index % 251)?; INLINE_BYTES],
            };
            let guard = guard(account, index);
            catalogue
                .commit_file(space, &path_of(caller, index, round)?, content, 0, &guard)
                .await?
                .map_err(|_| "missing")?;
            Ok(())
        })
        .await?;
        run("find", &catalogue, callers, each, move |catalogue, caller, index| async move {
            let path = path_of(caller, index, round)?;
            let found = catalogue.find(space, &path, true).await?;
            found.content.ok_or("lost")?;
            Ok(())
        })
        .await?;
        list(&catalogue, space, account).await?;
        run("remove", &catalogue, callers, each, move |catalogue, caller, index| async move {
            catalogue.remove(space, &path_of(caller, index, round)?, &guard(account, index)).await?;
            Ok(())
        })
        .await?;
        purge(&catalogue, space).await?;
    }
    Ok(())
}

async fn prepare(catalogue: &Arc<dyn Catalogue>) -> Outcome<(AccountId, SpaceId)> {
    let new = NewAccount {
        uid: Uid([1; 16]),
        name: "ana".to_owned(),
        admin: true,
        public_key: [2; 32],
        quota_bytes: Some(1 << 50),
        slots: Vec::new(),
        home_uid: Uid([3; 16]),
        home_wrapped_key: vec![4; 80],
        now_ms: 1,
    };
    let account = catalogue.create_account(new).await?.id;
    let (space, _) = catalogue.space_by_name("ana", account).await?.ok_or("no home")?;
    for folder in 0..FOLDERS {
        let path = DrivePath::parse(&format!("tree/folder-{folder}"))?;
        if folder == 0 {
            catalogue.make_folder(space.id, &DrivePath::parse("tree")?, &guard(account, 0)).await?;
            catalogue.make_folder(space.id, &DrivePath::parse("large")?, &guard(account, 0)).await?;
        }
        catalogue.make_folder(space.id, &path, &guard(account, 0)).await?;
    }
    Ok((account, space.id))
}

fn guard(account: AccountId, index: usize) -> Guard {
    Guard {
        account,
        expect: Expect::Any,
        tokens: Vec::new(),
        through: Vec::new(),
        now_ms: i64::try_from(index).unwrap_or(0),
        mount: 0,
    }
}

fn path_of(caller: usize, index: usize, round: usize) -> Outcome<DrivePath> {
    Ok(DrivePath::parse(&format!("tree/folder-{}/file-{round}-{caller}-{index}.txt", index % FOLDERS))?)
}

async fn run<F, W>(name: &str, catalogue: &Arc<dyn Catalogue>, callers: usize, each: usize, work: F) -> Outcome<()>
where
    F: Fn(Arc<dyn Catalogue>, usize, usize) -> W + Send + Copy + 'static,
    W: Future<Output = Outcome<()>> + Send,
{
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let catalogue = Arc::clone(catalogue);
        tasks.push(tokio::spawn(async move {
            for index in 0..each {
                work(Arc::clone(&catalogue), caller, index).await?;
            }
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let (seconds, count) = (began.elapsed().as_secs_f64(), (callers * each) as f64);
    let cpu_us = (cpu_seconds() - cpu) * 1e6 / count;
    println!("{name:>8}: {:>8.0} operations/s, {cpu_us:>6.1} us of processor each", count / seconds);
    Ok(())
}

async fn list(catalogue: &Arc<dyn Catalogue>, space: SpaceId, account: AccountId) -> Outcome<()> {
    let large = DrivePath::parse("large")?;
    let folder = catalogue.find(space, &large, false).await?.node(&large).ok_or("no folder")?.id;
    if catalogue.children(folder, None, 1).await?.is_empty() {
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..10_000 {
            let (catalogue, path) = (Arc::clone(catalogue), large.join(NodeName::new(&format!("entry-{index}"))?)?);
            tasks.spawn(async move {
                catalogue.commit_file(space, &path, NewContent::Empty, 0, &guard(account, index)).await
            });
        }
        while let Some(made) = tasks.join_next().await {
            made??.map_err(|_| "missing")?;
        }
    }
    for _ in 0..3 {
        let began = Instant::now();
        let members = catalogue.children(folder, None, usize::MAX).await?.len();
        println!("    list: {members} members in {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

async fn purge(catalogue: &Arc<dyn Catalogue>, space: SpaceId) -> Outcome<()> {
    let began = Instant::now();
    catalogue.purge_trash(space, None).await?;
    let purged = began.elapsed();
    let mut rows = 0;
    loop {
        match catalogue.release_garbage(4_096).await? {
            0 => break,
            some => rows += some,
        }
    }
    println!(
        "   purge: {:.1} ms, then {rows} rows released in {:.1} ms",
        purged.as_secs_f64() * 1e3,
        began.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

/// Processor time of this process, user and system, from `/proc/self/stat` (fields 14 and 15, in ticks of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
