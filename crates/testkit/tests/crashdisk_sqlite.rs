//! A real `SQLite` on the disk: with its strongest settings it must lose nothing that it
//! acknowledged; with syncs switched off losses must appear, or the disk proves nothing.
//!
//! `SQLite` maps its `-shm` file, so it runs in another process than the one that serves the disk:
//! this test starts itself again with one of the ignored tests below, which are its two programs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdfast_testkit::crashdisk::{Config, CrashDisk, Snapshot};
use holdfast_testkit::rng::Prng;
use rusqlite::{Connection, OpenFlags};

type Error = Box<dyn std::error::Error>;

/// Transactions of one run; the disk is judged as it was after each.
const TRANSACTIONS: u32 = 30;
/// Power cuts tried for each protocol.
const CUTS: u64 = 100;
/// What the writing program prints before the number of a committed transaction.
const COMMITTED: &str = "committed ";

/// The bytes that transaction `number` stores: some small, some over many pages.
fn payload(number: u32) -> Vec<u8> {
    let mut rng = Prng::new(u64::from(number));
    let mut data = vec![0; rng.index(20_000)];
    rng.fill(&mut data);
    data
}

fn parameter(name: &str) -> Result<String, Error> {
    Ok(std::env::var(name)?)
}

/// This test program again, as one of the programs below.
fn program(name: &str, database: PathBuf) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    command.env("DATABASE", database).stderr(Stdio::null());
    Ok(command)
}

#[test]
#[ignore = "a program that the tests start, not a test"]
fn write_transactions() -> Result<(), Error> {
    let path = parameter("DATABASE")?;
    let mut db = Connection::open(&path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", parameter("SYNCHRONOUS")?)?;
    // Small, so that checkpoints (the risky part) happen within a run.
    db.pragma_update(None, "wal_autocheckpoint", 20)?;
    db.execute_batch("CREATE TABLE item (number INTEGER PRIMARY KEY, data BLOB)")?;
    // SQLite syncs the folder when it makes a WAL; the database's own name is the caller's to sync.
    File::open(Path::new(&path).parent().ok_or("no folder")?)?.sync_all()?;
    for number in 0..TRANSACTIONS {
        let transaction = db.transaction()?;
        transaction.execute("INSERT INTO item VALUES (?1, ?2)", (number, payload(number)))?;
        transaction.commit()?;
        println!("{COMMITTED}{number}");
    }
    Ok(())
}

#[test]
#[ignore = "a program that the tests start, not a test"]
fn read_transactions() -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = Connection::open_with_flags(parameter("DATABASE")?, flags)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    assert_eq!(verdict, "ok");
    for number in 0..=parameter("ACKNOWLEDGED")?.parse()? {
        let sql = "SELECT data FROM item WHERE number = ?1";
        let data: Vec<u8> = db.query_row(sql, [number], |row| row.get(0))?;
        assert_eq!(data, payload(number), "transaction {number}");
    }
    Ok(())
}

/// Runs transactions; for each that was acknowledged, its number and the disk at that moment (or
/// a little later: the writer goes on).
fn run(synchronous: &str) -> Result<Vec<(u32, Snapshot)>, Error> {
    let dir = tempfile::tempdir()?;
    let disk = CrashDisk::mount(dir.path(), Config::default())?;
    let mut writer = program("write_transactions", disk.path().join("catalogue.db"))?
        .env("SYNCHRONOUS", synchronous)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(writer.stdout.take().ok_or("no output")?);
    let mut moments = Vec::new();
    for line in output.lines() {
        if let Some(number) = line?.strip_prefix(COMMITTED) {
            moments.push((number.parse()?, disk.snapshot()));
        }
    }
    assert!(writer.wait()?.success());
    assert_eq!(moments.len(), TRANSACTIONS as usize);
    Ok(moments)
}

/// Cuts the power, mounts what is left, and says whether everything acknowledged is there and sound.
fn survives(moment: &(u32, Snapshot), seed: u64) -> Result<bool, Error> {
    let dir = tempfile::tempdir()?;
    let disk = CrashDisk::mount_image(dir.path(), moment.1.crash(seed))?;
    let mut reader = program("read_transactions", disk.path().join("catalogue.db"))?;
    reader.env("ACKNOWLEDGED", moment.0.to_string());
    Ok(reader.stdout(Stdio::null()).status()?.success())
}

/// Seeds whose power cut lost something that was acknowledged.
fn losses(synchronous: &str) -> Result<Vec<u64>, Error> {
    let moments = run(synchronous)?;
    let mut lost = Vec::new();
    for (seed, moment) in (0..CUTS).zip(moments.iter().cycle()) {
        if !survives(moment, seed)? {
            lost.push(seed);
        }
    }
    Ok(lost)
}

#[test]
fn wal_with_full_sync_never_loses_a_committed_transaction() -> Result<(), Error> {
    assert_eq!(losses("FULL")?, Vec::<u64>::new());
    Ok(())
}

#[test]
fn without_syncs_committed_transactions_are_lost() -> Result<(), Error> {
    let lost = losses("OFF")?;
    assert!(lost.len() > 10, "the disk has no teeth: only {lost:?}");
    Ok(())
}
