//! Sites that break, hang, lie, change and trickle.

use super::memory::{Away, GRAIN, Memory, Node, path};
use super::*;
use crate::sum::{Sum, SumKind};
use holdfast_testkit::rng::Prng;
use std::time::Duration;

fn content(bytes: usize) -> Vec<u8> {
    let mut rng = Prng::new(bytes as u64);
    (0..bytes).map(|_| u8::try_from(rng.below(256)).expect("a byte")).collect()
}

fn file(bytes: usize) -> Node {
    Node::File { bytes: content(bytes), modified_ns: 7 }
}

fn one_file(bytes: usize) -> (Arc<Memory>, Arc<Memory>) {
    (Memory::new([(path("a"), file(bytes))]), Memory::new([]))
}

#[tokio::test(start_paused = true)]
async fn a_network_that_breaks_all_the_time_costs_what_was_under_way_and_no_more() {
    let (source, destination) = one_file(10_000);
    destination.faults.lock().break_every = Some(5);
    source.faults.lock().break_every = Some(7);
    let (report, _) = moved(&source, &destination, Options::default()).await;
    let report = report.expect("arrives");
    assert_eq!((report.counts.failed, report.counts.files), (0, 1));
    assert_eq!(destination.tree()[&path("a")], source.tree()[&path("a")]);
    assert!(report.counts.retries > 10, "{}", report.counts.retries);
    assert_eq!(destination.written.load(Ordering::Relaxed), 10_000, "nothing was sent twice");
}

#[tokio::test(start_paused = true)]
async fn what_came_behind_a_missing_block_is_not_read_again() {
    let (source, destination) = one_file(1_000);
    let blocks = 1_000_u64.div_ceil(GRAIN);
    // Three come behind it, and wait for it in vain.
    source.faults.lock().hang_at = Some(5);
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.retries, 1);
    assert_eq!(destination.tree(), source.tree());
    assert_eq!(source.reads.load(Ordering::Relaxed), blocks + 1, "the one that never came is asked for twice");
}

#[tokio::test(start_paused = true)]
async fn within_a_limit_each_block_arrives_when_its_turn_has_come() {
    let (source, destination) = one_file(1_000);
    let options = Options { rate: Some(GRAIN), ..Options::default() };
    let looking = async {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        destination.written.load(Ordering::Relaxed)
    };
    let ((report, _), written) = tokio::join!(moved(&source, &destination, options), looking);
    assert_eq!((report.expect("arrives").counts.files, written), (1, 2 * GRAIN));
}

#[tokio::test(start_paused = true)]
async fn what_came_of_another_version_is_not_used() {
    let (source, destination) = one_file(1_000);
    {
        // It is replaced while a block is awaited that never comes.
        let mut faults = source.faults.lock();
        (faults.hang_at, faults.change_at) = (Some(5), Some(7));
    }
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.files, 1);
    assert_eq!(destination.tree(), source.tree());
    let Node::File { bytes, .. } = &source.tree()[&path("a")] else { unreachable!("a file") };
    assert_eq!(bytes.len(), 1_007, "it was replaced");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_never_answers_is_begun_again_after_the_stall() {
    let (source, destination) = one_file(1_000);
    source.faults.lock().hang_at = Some(5);
    let begun = Instant::now();
    let (report, events) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.retries, 1);
    assert_eq!(destination.tree()[&path("a")], source.tree()[&path("a")]);
    let stalled = |event: &Event| matches!(event, Event::Retry { why, .. } if why.contains("nothing arrived for 60 s"));
    assert!(events.iter().any(stalled), "{events:?}");
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_clock_ends_a_transfer_that_trickles() {
    let (source, destination) = one_file(5_000);
    source.faults.lock().trickle = Some(Duration::from_secs(30));
    let begun = Instant::now();
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.retries, 0);
    assert!(begun.elapsed() > Duration::from_hours(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_away_for_twenty_minutes_is_waited_for_and_nothing_is_sent_twice() {
    const AWAY: Duration = Duration::from_mins(20);
    for (silent, at_source) in [(true, true), (true, false), (false, true), (false, false)] {
        let (source, destination) = one_file(10_000);
        // Some four minutes without that.
        source.faults.lock().trickle = Some(Duration::from_millis(100));
        let begun = Instant::now();
        let from = begun + Duration::from_mins(1);
        let end = if at_source { &source } else { &destination };
        end.faults.lock().away = Some(Away { during: from..from + AWAY, silent });
        let (report, _) = moved(&source, &destination, Options::default()).await;
        let report = report.expect("arrives");
        assert_eq!((report.counts.failed, report.counts.files), (0, 1), "{silent} {at_source}");
        assert!(destination.tree()[&path("a")] == source.tree()[&path("a")]);
        assert!(report.counts.retries > 10, "{}", report.counts.retries);
        assert_eq!(destination.written.load(Ordering::Relaxed), 10_000, "nothing was sent twice");
        assert!(begun.elapsed() > AWAY && begun.elapsed() < AWAY + Duration::from_mins(7), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_progress_is_given_up_after_the_time_for_that() {
    let (source, destination) = one_file(1_000);
    source.put(&path("b"), Node::Link("c".into()));
    source.faults.lock().break_every = Some(1);
    let begun = Instant::now();
    let (report, _) = moved(&source, &destination, Options::default()).await;
    let report = report.expect("the rest goes on");
    assert_eq!((report.counts.failed, report.counts.links), (1, 1));
    assert_eq!(report.failures[0].path, "/a");
    assert!(begun.elapsed() > Duration::from_mins(55) && begun.elapsed() < Duration::from_mins(61));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_changes_while_it_is_read_arrives_in_its_new_version() {
    let (source, destination) = one_file(1_000);
    source.faults.lock().change_at = Some(6);
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.failed, 0);
    let Node::File { bytes, .. } = &destination.tree()[&path("a")] else { panic!("no file") };
    assert_eq!(*bytes, vec![9; 1_007]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_lies_about_sizes_is_refused_and_nothing_of_it_is_seen() {
    let (source, destination) = one_file(1_000);
    source.faults.lock().lie = 1;
    let (report, _) = moved(&source, &destination, Options::default()).await;
    let report = report.expect("ends");
    assert_eq!((report.counts.failed, report.counts.files), (1, 0));
    assert!(report.failures[0].message.contains("breaks its word"), "{:?}", report.failures);
    assert!(!destination.tree().contains_key(&path("a")));
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_fails_what_does_not_fit_and_nothing_else() {
    let source = Memory::new([(path("a"), file(100)), (path("b"), file(5_000)), (path("c"), Node::Link("x".into()))]);
    let destination = Memory::new([]);
    destination.faults.lock().room = Some(2_000);
    let (report, _) = moved(&source, &destination, Options { small_files: 1, ..Options::default() }).await;
    let report = report.expect("ends");
    assert_eq!((report.counts.failed, report.counts.files, report.counts.links), (1, 1, 1));
    assert_eq!((report.failures[0].path.as_str(), report.failures[0].kind), ("/b", ErrorKind::NoSpace));
}

#[tokio::test(start_paused = true)]
async fn who_is_not_known_is_told_once_and_for_the_whole() {
    let (source, destination) = one_file(100);
    destination.faults.lock().refuse = Some(ErrorKind::Unauthenticated);
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect_err("refused").kind(), ErrorKind::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_to_stop_goes_on_later_where_it_was() {
    let (source, destination) = one_file(10_000);
    source.faults.lock().trickle = Some(Duration::from_secs(1));
    let (stop, stopping) = watch::channel(false);
    let halfway = async {
        while destination.written.load(Ordering::Relaxed) < 5_000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        stop.send_replace(true);
    };
    let ((report, _), ()) = tokio::join!(moved_until(&source, &destination, Options::default(), stopping), halfway);
    let report = report.expect("stops");
    assert!(report.stopped && report.counts.failed == 0 && !destination.tree().contains_key(&path("a")));
    source.faults.lock().trickle = None;
    let (report, _) = moved(&source, &destination, Options::default()).await;
    let report = report.expect("arrives");
    assert!(report.counts.stood_bytes >= 5_000, "{:?}", report.counts);
    assert_eq!(destination.written.load(Ordering::Relaxed), 10_000, "nothing was sent twice");
    assert_eq!(destination.tree(), source.tree());
}

#[tokio::test(start_paused = true)]
async fn a_rate_holds_for_all_files_together() {
    let source = Memory::new((0..10).map(|n| (path(&format!("f{n}")), file(1_000))));
    let destination = Memory::new([]);
    let begun = Instant::now();
    let (report, _) = moved(&source, &destination, Options { rate: Some(100), ..Options::default() }).await;
    assert_eq!(report.expect("arrives").counts.files, 10);
    assert!(
        begun.elapsed() >= Duration::from_secs(99) && begun.elapsed() < Duration::from_secs(105),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn small_files_overlap_as_far_as_is_allowed() {
    let source =
        Memory::new((0..100).map(|n| (path(&format!("f{n}")), file(2 * usize::try_from(GRAIN).expect("small")))));
    source.faults.lock().trickle = Some(Duration::from_secs(1));
    let destination = Memory::new([]);
    let (report, _) = moved(&source, &destination, Options { small_files: 10, ..Options::default() }).await;
    assert_eq!(report.expect("arrives").counts.files, 100);
    assert_eq!(destination.most_at_once.load(Ordering::Relaxed), 10);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_when_something_failed_or_the_source_is_empty() {
    let (source, destination) = one_file(1_000);
    destination.put(&path("extra"), file(3));
    source.faults.lock().lie = 1;
    let sync = |delete| Options { delete, ..Options::default() };
    let (report, _) = moved(&source, &destination, sync(Delete::AfterSuccess)).await;
    let report = report.expect("ends");
    assert!(report.kept.is_some() && destination.tree().contains_key(&path("extra")));
    let (report, _) = moved(&source, &destination, sync(Delete::Anyway)).await;
    assert!(report.expect("ends").kept.is_none() && !destination.tree().contains_key(&path("extra")));

    destination.put(&path("extra"), file(3));
    let empty = Memory::new([]);
    let (report, _) = moved(&empty, &destination, sync(Delete::AfterSuccess)).await;
    assert_eq!(report.expect_err("refused").kind(), ErrorKind::Conflict);
    let options = Options { delete_if_empty: true, ..sync(Delete::AfterSuccess) };
    moved(&empty, &destination, options).await.0.expect("removes");
    assert_eq!(destination.tree(), empty.tree());
}

#[tokio::test(start_paused = true)]
async fn what_arrived_is_removed_from_the_source_and_nothing_else() {
    let source = Memory::new([
        (path("a"), file(10)),
        (path("b"), file(20)),
        (path("c"), file(30)),
        (path("l"), Node::Link("a".into())),
    ]);
    // It looks the same and is not; and one that is the same.
    let other = Node::File { bytes: vec![0; 10], modified_ns: 7 };
    let destination = Memory::new([(path("a"), other), (path("b"), file(20))]);
    destination.faults.lock().room = Some(10);
    let options = Options { delete_source: true, small_files: 1, ..Options::default() };
    let (report, _) = moved(&source, &destination, options).await;
    let report = report.expect("ends");
    assert_eq!((report.counts.failed, report.counts.deleted_source), (1, 3));
    assert_eq!(source.tree().keys().map(ToString::to_string).collect::<Vec<_>>(), ["/", "/c"]);
    assert_eq!(destination.tree()[&path("a")], file(10));
}

#[tokio::test(start_paused = true)]
async fn folders_far_away_are_listed_side_by_side() {
    let folders = (0..16).flat_map(|a| (0..4).map(move |b| format!("{a}/{b}")));
    let nodes = folders.flat_map(|folder| [(path(&folder), Node::Folder), (path(&format!("{folder}/f")), file(1))]);
    let above = (0..16).map(|a| (path(&a.to_string()), Node::Folder));
    let source = Memory::new(above.chain(nodes));
    source.faults.lock().far = Some(Duration::from_secs(1));
    let begun = Instant::now();
    let (report, _) = moved(&source, &Memory::new([]), Options::default()).await;
    assert_eq!(report.expect("arrives").counts.files, 64);
    // One after another would be 84 listings and more.
    assert!(begun.elapsed() <= Duration::from_secs(40), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_cleared_away_for_what_is_not_moved() {
    let source = Memory::new([(path("x"), Node::Link("a".into())), (path("y"), file(3))]);
    let destination = Memory::new([(path("x"), Node::Folder), (path("x/kept"), file(5)), (path("y"), Node::Folder)]);
    let options = Options { delete: Delete::AfterSuccess, links: crate::options::Links::Skip, ..Options::default() };
    let (report, _) = moved(&source, &destination, options).await;
    assert_eq!(report.expect("moves").counts.failed, 0);
    assert!(destination.tree().contains_key(&path("x/kept")));
    assert_eq!(destination.tree()[&path("y")], file(3));
}

#[tokio::test(start_paused = true)]
async fn what_has_not_the_sum_that_its_source_tells_never_appears() {
    let (source, destination) = one_file(1_000);
    source.faults.lock().sum = Some(Sum::of(SumKind::Md5, b"something else"));
    let (report, _) = moved(&source, &destination, Options::default()).await;
    let report = report.expect("ends");
    assert_eq!((report.counts.failed, report.failures[0].kind), (1, ErrorKind::WrongChecksum));
    assert!(!destination.tree().contains_key(&path("a")));
    source.faults.lock().sum = Some(Sum::of(SumKind::Md5, &content(1_000)));
    assert_eq!(moved(&source, &destination, Options::default()).await.0.expect("arrives").counts.files, 1);
    assert_eq!(destination.tree(), source.tree());
}

/// Stops a transfer half-way.
async fn stopped_halfway(source: &Arc<Memory>, destination: &Arc<Memory>) {
    source.faults.lock().trickle = Some(Duration::from_secs(1));
    let (stop, stopping) = watch::channel(false);
    let halfway = async {
        while destination.written.load(Ordering::Relaxed) < 5_000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        stop.send_replace(true);
    };
    let ((report, _), ()) = tokio::join!(moved_until(source, destination, Options::default(), stopping), halfway);
    assert!(report.expect("stops").stopped);
    source.faults.lock().trickle = None;
}

#[tokio::test(start_paused = true)]
async fn what_stood_is_added_up_as_well_or_begun_anew_where_it_cannot_be() {
    for reads_back in [true, false] {
        let (source, destination) = one_file(10_000);
        source.faults.lock().sum = Some(Sum::of(SumKind::Sha256, &content(10_000)));
        destination.faults.lock().reads_back = reads_back;
        stopped_halfway(&source, &destination).await;
        destination.faults.lock().break_every = Some(100);
        let (report, _) = moved(&source, &destination, Options::default()).await;
        assert_eq!(report.expect("arrives").counts.failed, 0);
        assert!(destination.tree() == source.tree());
        let written = destination.written.load(Ordering::Relaxed);
        assert!(if reads_back { written == 10_000 } else { written > 10_000 }, "{reads_back}: {written}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_stood_and_was_wrong_is_moved_anew() {
    let (source, destination) = one_file(10_000);
    source.faults.lock().sum = Some(Sum::of(SumKind::Md5, &content(10_000)));
    destination.faults.lock().reads_back = true;
    stopped_halfway(&source, &destination).await;
    destination.parts.lock().get_mut(&path("a")).expect("begun").1[70] ^= 1;
    let (report, _) = moved(&source, &destination, Options::default()).await;
    assert_eq!(report.expect("arrives").counts.failed, 0);
    assert!(destination.tree() == source.tree());
}
