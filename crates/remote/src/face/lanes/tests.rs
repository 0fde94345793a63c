//! Lanes without a network.

use super::*;
use crate::wire::lane_head;
use holdfast_base::ErrorKind;

const KEY: Key = (Uid([1; 16]), Uid([2; 16]), 3);

/// Where nobody waits long.
fn impatient() -> Lanes {
    Lanes { join_time: Duration::from_millis(30), ..Lanes::default() }
}

/// A lane of these entries.
fn lane(entries: &[(u64, &'static [u8])]) -> ContentStream {
    let pieces: Vec<Result<Bytes>> = entries
        .iter()
        .flat_map(|(number, bytes)| [Ok(lane_head(*number, bytes.len())), Ok(Bytes::from_static(bytes))])
        .collect();
    stream::iter(pieces).boxed()
}

/// One that does not end.
fn open(entries: &[(u64, &'static [u8])]) -> ContentStream {
    lane(entries).chain(stream::pending()).boxed()
}

async fn gather(mut part: ContentStream) -> Result<Bytes> {
    let mut all = BytesMut::new();
    while let Some(piece) = part.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all.freeze())
}

const WHOLE: &[u8] = b"\0\0\0\x03one\0\0\0\x03two\0\0\0\x05three";

#[tokio::test]
async fn entries_of_all_lanes_are_in_their_order() {
    for turns in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let lanes = Lanes::default();
        let carried = |at: usize| match at {
            0 => lane(&[(0, b"one"), (3, b"")]),
            1 => lane(&[(2, b"three")]),
            _ => lane(&[(1, b"two")]),
        };
        // The first lane is whichever comes so; others may be there before it.
        let (first, a, b) = tokio::join!(
            lanes.first(KEY, carried(turns[0]), gather),
            lanes.join(KEY, carried(turns[1])),
            lanes.join(KEY, carried(turns[2])),
        );
        assert_eq!((first.expect("whole"), a.is_ok(), b.is_ok()), (Bytes::from_static(WHOLE), true, true));
        assert!(lanes.bundles.lock().is_empty());
    }
}

#[tokio::test]
async fn a_lane_may_end_and_another_go_on() {
    let lanes = impatient();
    let (first, other) = tokio::join!(
        lanes.first(KEY, lane(&[(0, b"one")]), gather),
        lanes.join(KEY, lane(&[(1, b"two"), (2, b"three"), (3, b"")])),
    );
    assert_eq!((first.expect("whole"), other.is_ok()), (Bytes::from_static(WHOLE), true));
    // Where all end without a word, the part is not whole.
    let part = lanes.first(KEY, lane(&[(0, b"one")]), gather).await;
    assert_eq!(part.expect_err("no end").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_lane_that_breaks_off_breaks_the_part_off_and_what_came_before_is_there() {
    let lanes = Lanes::default();
    // A connection that ends can be tried again; nonsense cannot.
    let (goes_by, nonsense) = (ErrorKind::Unavailable, ErrorKind::InvalidInput);
    for (expected, breaks) in [
        (goes_by, lane(&[(1, b"two")]).chain(stream::iter([Err(Error::invalid("the connection ended"))])).boxed()),
        (goes_by, stream::iter([Ok(lane_head(1, 3)), Ok(Bytes::from_static(b"tw"))]).boxed()),
        (goes_by, stream::iter([Ok(Bytes::from_static(b"\0\0"))]).boxed()),
        (nonsense, lane(&[(1, b"two"), (1, b"two")])),
        (nonsense, stream::iter([Ok(lane_head(1, ENTRY_BYTES_MAX + 1))]).boxed()),
    ] {
        let mut came = Vec::new();
        let gather = async |mut part: ContentStream| {
            while let Some(piece) = part.next().await {
                came.extend_from_slice(&piece?);
            }
            Ok(Bytes::new())
        };
        let (first, _) = tokio::join!(lanes.first(KEY, open(&[(0, b"one")]), gather), lanes.join(KEY, breaks));
        let kind = first.expect_err("broken").kind();
        assert_eq!(kind, expected);
        assert_eq!(came[..7], WHOLE[..7]);
    }
    assert!(lanes.bundles.lock().is_empty());
}

#[tokio::test]
async fn a_lane_whose_connection_goes_away_is_noticed() {
    let lanes = Arc::new(Lanes::default());
    let (joining, first) = (lanes.clone(), lanes.clone());
    let first = tokio::spawn(async move { first.first(KEY, open(&[(0, b"one")]), gather).await });
    let other = tokio::spawn(async move { joining.join(KEY, open(&[(2, b"three")])).await });
    tokio::task::yield_now().await;
    while lanes.bundles.lock().get(&KEY).is_none_or(|bundle| bundle.open.load(Ordering::SeqCst) < 2) {
        tokio::task::yield_now().await;
    }
    other.abort();
    assert_eq!(first.await.expect("ends").expect_err("broken").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_lane_without_a_first_one_is_refused_and_so_is_a_second_first() {
    let lanes = impatient();
    let alone = lanes.join(KEY, lane(&[(0, b"one")])).await.expect_err("nobody is there");
    assert_eq!(alone.kind(), ErrorKind::NotFound);
    let second = async {
        tokio::task::yield_now().await;
        lanes.first(KEY, lane(&[]), gather).await
    };
    let other = (KEY.0, KEY.1, 4);
    let first = lanes.first(KEY, lane(&[(0, b"one"), (1, b"")]).chain(stream::pending()).boxed(), async |part| {
        assert_eq!(second.await.expect_err("two").kind(), ErrorKind::Conflict);
        gather(part).await
    });
    assert_eq!(first.await.expect("whole"), WHOLE[..7]);
    assert_eq!(lanes.first(other, lane(&[(0, b"")]), gather).await.expect("nothing"), Bytes::new());
}
