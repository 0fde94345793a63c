//! Times the local store beneath everything else: `cargo run --release -p holdfast-blob --example store_speed --
//! FOLDER`.
//!
//! Prints the median and the 99th percentile of each call in microseconds, and rates of large uploads. The folder must
//! be on the disk to be measured; the store made in it is removed at the end.

use bytes::Bytes;
use holdfast_base::{PackName, Result};
use holdfast_blob::BlobStore;
use holdfast_blob::fs::FsStore;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or_else(|| holdfast_base::Error::invalid("name a folder"))?;
    let root = std::path::Path::new(&folder).join("store-speed");
    let store = FsStore::open(&root)?;
    small_writes(&store).await?;
    large_upload(&store).await?;
    reads(&store).await?;
    drop(store);
    Ok(std::fs::remove_dir_all(root)?)
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |hundredth: usize| times[(times.len() - 1) * hundredth / 100].as_secs_f64() * 1e6;
    println!("{what:<44} median {:>9.1} µs   99 % {:>9.1} µs", at(50), at(99));
}

async fn timed<T>(times: &mut Vec<Duration>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let begun = Instant::now();
    let result = work.await;
    times.push(begun.elapsed());
    result
}

fn name(number: u64) -> PackName {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    PackName(bytes)
}

async fn small_writes(store: &FsStore) -> Result<()> {
    for bytes in [4 << 10, 256 << 10] {
        let part = Bytes::from(vec![1; bytes]);
        let mut appender = store.append(name(1)).await?;
        let (mut appends, mut syncs) = (Vec::new(), Vec::new());
        for _ in 0..1_000 {
            timed(&mut appends, appender.append(vec![part.clone()])).await?;
            timed(&mut syncs, appender.sync()).await?;
        }
        report(&format!("append of {} KiB", bytes >> 10), appends);
        report(&format!("sync after {} KiB", bytes >> 10), syncs);
        store.delete(name(1)).await?;
        let mut puts = Vec::new();
        for number in 0..200 {
            timed(&mut puts, store.put(name(number), vec![part.clone()])).await?;
        }
        report(&format!("put of {} KiB", bytes >> 10), puts);
        for number in 0..200 {
            store.delete(name(number)).await?;
        }
    }
    Ok(())
}

async fn large_upload(store: &FsStore) -> Result<()> {
    let part = Bytes::from(vec![1; MIB]);
    for round in 0..5 {
        let mut appender = store.append(name(7)).await?;
        let begun = Instant::now();
        for _ in 0..1_024 {
            appender.append(vec![part.clone()]).await?;
        }
        let written = begun.elapsed();
        let sync_begun = Instant::now();
        appender.sync().await?;
        let synced = sync_begun.elapsed();
        println!(
            "1 GiB by 1 MiB, round {round}: appends {:.0} MB/s, with sync {:.0} MB/s, the sync {:.1} ms",
            1073.7 / written.as_secs_f64(),
            1073.7 / (written + synced).as_secs_f64(),
            synced.as_secs_f64() * 1e3
        );
        store.delete(name(7)).await?;
    }
    Ok(())
}

async fn reads(store: &FsStore) -> Result<()> {
    store.put(name(7), vec![Bytes::from(vec![1; MIB]); 64]).await?;
    for (what, len, keep, clear) in [
        ("cached read of 4 KiB, pooled buffer", 4 << 10, true, false),
        ("cached read of 1 MiB, pooled buffer", MIB, true, false),
        ("cached read of 1 MiB, cleared buffer", MIB, true, true),
        ("cached read of 1 MiB, new buffer", MIB, false, false),
    ] {
        let (mut times, mut buffer) = (Vec::new(), Vec::new());
        for round in 0..2_000u64 {
            let taken = if keep { std::mem::take(&mut buffer) } else { Vec::new() };
            buffer = timed(&mut times, store.read(name(7), (round % 63) << 20, len, taken)).await?;
            if clear {
                buffer.clear();
            }
        }
        report(what, times);
    }
    Ok(())
}
