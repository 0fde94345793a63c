//! Prints what the engine writes and reads per second without any network: `cargo run --release -p holdfast-drive --example
//! engine_speed -- FOLDER [TEXT_FILE]`.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::accounts::{NewPerson, Proof};
use holdfast_auth::{Accounts, AuthOptions, Secret, Session};
use holdfast_base::{ByteRange, DrivePath, SystemClock};
use holdfast_blob::fs::FsStore;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Conditions, Drive, Location, WriteOptions};
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const CHUNK: usize = 256 << 10;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().expect("a folder to work in"));
    std::fs::create_dir_all(&folder).expect("makes the folder");
    let catalogue = Arc::new(SqliteCatalogue::open(&folder.join("c.db"), &Options::default()).expect("opens"));
    let store = Arc::new(FsStore::open(folder.join("packs")).expect("opens"));
    let clock = Arc::new(SystemClock);
    let engine =
        Engine::start(catalogue.clone(), store, clock.clone(), EngineOptions::default()).await.expect("starts");
    let accounts = Accounts::new(catalogue, clock, &AuthOptions::default()).expect("makes");
    let password = Secret::new("a long enough passphrase for this");
    let person = NewPerson { name: "ana".into(), password: Some(password.clone()), ..NewPerson::default() };
    accounts.create(person).await.expect("creates");
    let who = Arc::new(accounts.open("ana", Proof::Password(&password)).await.expect("opens"));
    let mut inputs = vec![("incompressible".to_owned(), even(1 << 30))];
    inputs.extend(args.map(|path| (path.clone(), std::fs::read(&path).expect("reads"))));
    for round in 0..3 {
        for (name, content) in &mut inputs {
            stamp(content, round);
            big(&engine, &who, name, content).await;
        }
        small(&engine, &who, round).await;
    }
    engine.stop().await.expect("stops");
}

/// Makes every block differ from the round before.
fn stamp(content: &mut [u8], round: u64) {
    for part in content.chunks_mut(256 << 10).filter(|part| part.len() > 8) {
        part[..8].copy_from_slice(&round.to_le_bytes());
    }
}

async fn big(engine: &Engine, who: &Session, name: &str, content: &[u8]) {
    let at = Location { space: "ana".into(), path: DrivePath::parse("big").expect("a path") };
    let chunks: Vec<_> = content.chunks(CHUNK).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let options = WriteOptions { length: Some(content.len() as u64), ..WriteOptions::default() };
    let start = Instant::now();
    engine.write(who, &at, options, stream::iter(chunks).boxed()).await.expect("writes");
    let write_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let walk = engine.walk(who, &at).await.expect("walks");
    let mut body = engine.read(who, &walk, ByteRange::whole(content.len() as u64)).await.expect("reads");
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece.expect("reads").len();
    }
    let read_s = start.elapsed().as_secs_f64();
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    println!("{name}: write {:.0} MB/s, read {:.0} MB/s", rate(write_s), rate(read_s));
    engine.remove(who, &at, Conditions::default()).await.expect("removes");
}

async fn small(engine: &Engine, who: &Arc<Session>, round: u64) {
    const EACH: usize = 2_000;
    let run = |what: &'static str| {
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let (engine, who) = (engine.clone(), who.clone());
                tokio::spawn(async move {
                    for file in 0..EACH {
                        let path = DrivePath::parse(&format!("f-{round}-{task}-{file}")).expect("a path");
                        let at = Location { space: "ana".into(), path };
                        match what {
                            "put" => {
                                let body = even(4096);
                                let options = WriteOptions { length: Some(4096), ..WriteOptions::default() };
                                let body = stream::iter([Ok(Bytes::from_owner(body))]).boxed();
                                engine.write(&who, &at, options, body).await.expect("writes");
                            }
                            "get" => {
                                let walk = engine.walk(&who, &at).await.expect("walks");
                                let mut body = engine.read(&who, &walk, ByteRange::whole(4096)).await.expect("reads");
                                assert_eq!(body.next().await.expect("a piece").expect("reads").len(), 4096);
                            }
                            _ => {
                                engine.remove(&who, &at, Conditions::default()).await.expect("removes");
                            }
                        }
                    }
                })
            })
            .collect();
        async move {
            let start = Instant::now();
            for task in tasks {
                task.await.expect("runs");
            }
            println!("4 KiB {what}: {:.0} files/s", (8 * EACH) as f64 / start.elapsed().as_secs_f64());
        }
    };
    for what in ["put", "get", "delete"] {
        run(what).await;
    }
}

fn even(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes as u64;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    out.truncate(bytes);
    out
}
