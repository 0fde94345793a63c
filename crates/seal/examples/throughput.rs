//! Prints what one core hashes, seals and opens per second: `cargo run --release -p holdfast-seal --example throughput [FILE]`.

use holdfast_base::Uid;
use holdfast_seal::block::RECORD_PREFIX_BYTES;
use holdfast_seal::{BlockKeys, Codec, Opener, Sealer, SpaceKey};
use std::time::Instant;

const BLOCK: usize = 1 << 20;

fn main() {
    let even: Vec<u8> = (0..64u32).flat_map(|n| block_of(n).collect::<Vec<_>>()).collect();
    report("incompressible", &even, Codec::Zstd(1));
    if let Some(path) = std::env::args().nth(1) {
        let bytes = std::fs::read(&path).expect("the file can be read");
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(2), Codec::Zstd(3)] {
            report(&format!("{path} {codec:?}"), &bytes, codec);
        }
    }
}

fn block_of(seed: u32) -> impl Iterator<Item = u8> {
    let mut state = u64::from(seed) + 1;
    (0..BLOCK / 8).flat_map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes()
    })
}

fn report(name: &str, bytes: &[u8], codec: Codec) {
    let keys = BlockKeys::derive(Uid([1; 16]), &SpaceKey::from_bytes([1; 32]));
    let (mut sealer, mut opener) = (Sealer::default(), Opener::default());
    let (mut hash_s, mut seal_s, mut open_s, mut stored) = (0.0, 0.0, 0.0, 0);
    let (mut buffer, mut spare) = (Vec::with_capacity(2 * BLOCK), Vec::with_capacity(2 * BLOCK));
    for plain in bytes.chunks(BLOCK) {
        buffer.clear();
        buffer.resize(RECORD_PREFIX_BYTES, 0);
        buffer.extend_from_slice(plain);
        let start = Instant::now();
        let id = keys.id(plain);
        hash_s += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let (record, other) = sealer.seal(&keys, id, codec, buffer, spare).expect("seals");
        seal_s += start.elapsed().as_secs_f64();
        stored += record.len();
        let start = Instant::now();
        let (plaintext, at, other) = opener.open(&keys, id, record, other).expect("opens");
        open_s += start.elapsed().as_secs_f64();
        assert_eq!(&plaintext[at..], plain);
        (buffer, spare) = (plaintext, other);
    }
    let rate = |seconds: f64| bytes.len() as f64 / 1e6 / seconds;
    println!(
        "{name}: hash {:.0} MB/s, seal {:.0} MB/s, open {:.0} MB/s, stored {:.3} of the size",
        rate(hash_s),
        rate(seal_s),
        rate(open_s),
        stored as f64 / bytes.len() as f64
    );
}
