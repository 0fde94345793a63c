//! The plane as a stream of bytes.

use crate::{connected, serving};
use holdfast_testkit::datagrams::Harm;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 / 3).to_le_bytes()[0]).collect()
}

/// Sends back what comes, until it ends.
async fn echo(plane: holdfast_plane::quic::Plane) {
    let (mut read, mut write) = tokio::io::split(plane.into_stream());
    tokio::io::copy(&mut read, &mut write).await.expect("open");
    write.shutdown().await.expect("open");
}

async fn there_and_back(harm: Harm, bytes: usize) {
    let (at, _kept) = serving(harm, echo).await;
    let (plane, _endpoint) = connected(&at).await;
    let (mut read, mut write) = tokio::io::split(plane.into_stream());
    let original = content(bytes);
    let send = async {
        for (at, part) in original.chunks(100_003).enumerate() {
            write.write_all(part).await.expect("open");
            if at % 7 == 0 {
                write.flush().await.expect("open");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        write.shutdown().await.expect("open");
    };
    let mut got = Vec::new();
    let ((), ended) = tokio::join!(send, read.read_to_end(&mut got));
    ended.expect("whole");
    assert!(got == original, "{} bytes came back of {bytes}", got.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_come_in_order_whatever_the_network_does() {
    let harm = Harm { lost: 0.3, doubled: 0.1, late: 0.2, corrupted: 0.05, delay: Duration::from_millis(3) };
    there_and_back(harm, 1_500_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_all_buffers_goes_through_a_clean_network() {
    there_and_back(Harm::default(), 16 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_stream_whose_connection_is_gone_nothing_more_comes_or_goes() {
    let (at, _kept) = serving(Harm::default(), |plane| async move {
        let mut stream = plane.into_stream();
        stream.write_all(&content(100_000)).await.expect("open");
        let mut first = [0];
        stream.read_exact(&mut first).await.expect("one");
        // Nothing was shut down: the runtime's task goes away with the connection below.
        std::future::pending::<()>().await;
    })
    .await;
    let (plane, endpoint) = connected(&at).await;
    let mut stream = plane.into_stream();
    let mut got = vec![0; 100_000];
    stream.read_exact(&mut got).await.expect("there");
    assert!(got == content(100_000));
    endpoint.close(0_u32.into(), b"gone");
    assert_eq!(stream.read(&mut got).await.unwrap_or(0), 0, "nothing more comes");
    assert!(stream.write_all(&content(10 << 20)).await.is_err(), "and nothing more goes");
}
