use super::*;
use holdfast_base::{AccountId, ErrorKind, SpaceId};
use proptest::prelude::*;
use std::sync::Arc;
use table::SessionId;

const KEY: LockKey = LockKey { node: NodeId(7), flock: false };

const fn session(number: u64) -> SessionId {
    (SpaceId(1), AccountId(2), number)
}

const fn range(start: u64, end: u64) -> ByteRange {
    ByteRange { start, end }
}

const fn held(owner: u64, start: u64, end: u64, exclusive: bool) -> Held {
    Held { owner, range: range(start, end), exclusive }
}

/// A table with two sessions over the network.
fn table() -> Arc<LockTable> {
    let table = Arc::new(LockTable::new(None));
    for number in [1, 2] {
        table.attach(session(number), true, Vec::new()).expect("attaches");
    }
    table
}

async fn ask(table: &LockTable, number: u64, held: Held, patience: Patience) -> LockAnswer {
    ask_of(table, number, (KEY, held), patience).await
}

async fn ask_of(table: &LockTable, number: u64, (key, held): (LockKey, Held), patience: Patience) -> LockAnswer {
    let ask = LockAsk { key, held, patience, ticket: held.owner, wait_ms: 60_000 };
    table.ask(session(number), ask).await.expect("is answered")
}

/// Has session 1 decide about the file no more; it holds these.
async fn contended(table: &LockTable, holds: &[Held]) {
    let whole = ask(table, 1, held(1, 0, 1, true), Patience::Try).await;
    let LockAnswer::Whole(number) = whole else { unreachable!("{whole:?}") };
    // It is recalled only when somebody asks, but may give it back before.
    table.yield_whole(session(1), KEY, number, holds).expect("yields");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_alone_has_the_whole_file_and_gives_it_back_when_it_is_recalled() {
    let table = table();
    let LockAnswer::Whole(number) = ask(&table, 1, held(1, 0, 10, true), Patience::Try).await else { unreachable!() };
    // A question whose answer was lost is answered as before.
    assert_eq!(ask(&table, 1, held(1, 0, 10, true), Patience::Try).await, LockAnswer::Whole(number));
    let other = tokio::spawn({
        let table = table.clone();
        async move { ask(&table, 2, held(1, 20, 30, true), Patience::Try).await }
    });
    let recalls = table.recalls(session(1), LEASE).await.expect("hears");
    assert_eq!(recalls, [(KEY, number)]);
    table.yield_whole(session(1), KEY, number, &[held(1, 0, 10, true)]).expect("yields");
    assert_eq!(other.await.expect("ends"), LockAnswer::Exact);
    let busy = ask(&table, 2, held(1, 5, 6, false), Patience::Probe).await;
    assert_eq!(busy, LockAnswer::Busy(Some(held(1, 0, 10, true))));
    // When nobody has any, the next has it as a whole again.
    table.leave_only(session(1), KEY, 1, &[]).expect("tells");
    table.leave_only(session(2), KEY, 1, &[]).expect("tells");
    let again = ask(&table, 2, held(1, 5, 6, false), Patience::Try).await;
    assert!(matches!(again, LockAnswer::Whole(later) if later > number), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_it_when_it_is_free_and_nothing_before() {
    let table = table();
    contended(&table, &[held(1, 0, 10, true)]).await;
    assert!(matches!(ask(&table, 2, held(9, 0, 1, false), Patience::Try).await, LockAnswer::Busy(Some(_))));
    let waits = tokio::spawn({
        let table = table.clone();
        async move { ask(&table, 2, held(9, 0, 1, false), Patience::Wait).await }
    });
    tokio::task::yield_now().await;
    // Letting go of another part, and sharing it, in turn.
    table.leave_only(session(1), KEY, 1, &[held(1, 0, 5, true)]).expect("tells");
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    // Nobody gets more by telling what is left.
    table.leave_only(session(1), KEY, 1, &[held(1, 0, 100, false)]).expect("tells");
    assert_eq!(waits.await.expect("ends"), LockAnswer::Exact);
    assert_eq!(ask(&table, 2, held(9, 50, 60, true), Patience::Try).await, LockAnswer::Exact);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_taken_back_is_answered_at_once_and_leaves_nothing() {
    let table = table();
    contended(&table, &[held(1, 0, 10, true)]).await;
    let waits = tokio::spawn({
        let table = table.clone();
        async move { ask(&table, 2, held(9, 0, 1, true), Patience::Wait).await }
    });
    tokio::task::yield_now().await;
    table.take_back(session(2), 9).expect("takes back");
    assert_eq!(waits.await.expect("ends"), LockAnswer::Later);
    // Nor does one whose asker is gone.
    let gone = tokio::time::timeout(Duration::from_millis(10), ask(&table, 2, held(9, 0, 1, true), Patience::Wait));
    gone.await.expect_err("waits");
    table.leave_only(session(1), KEY, 1, &[]).expect("tells");
    assert!(matches!(ask(&table, 1, held(1, 0, 1, true), Patience::Try).await, LockAnswer::Whole(_)));
}

#[tokio::test(start_paused = true)]
async fn two_that_wait_for_each_other_are_told() {
    let table = table();
    contended(&table, &[held(1, 0, 1, true)]).await;
    assert_eq!(ask(&table, 2, held(9, 1, 2, true), Patience::Try).await, LockAnswer::Exact);
    let waits = tokio::spawn({
        let table = table.clone();
        async move { ask(&table, 1, held(1, 1, 2, true), Patience::Wait).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(ask(&table, 2, held(9, 0, 1, true), Patience::Wait).await, LockAnswer::Deadlock);
    table.leave_only(session(2), KEY, 9, &[]).expect("tells");
    assert_eq!(waits.await.expect("ends"), LockAnswer::Exact);
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_loses_its_locks_with_its_lease_and_one_here_does_not() {
    let table = table();
    contended(&table, &[held(1, 0, 10, true)]).await;
    let began = tokio::time::Instant::now();
    let alive = tokio::spawn({
        let table = table.clone();
        async move { while table.recalls(session(2), LEASE / 3).await.is_ok() {} }
    });
    assert!(matches!(ask(&table, 2, held(9, 0, 1, false), Patience::Wait).await, LockAnswer::Whole(_)));
    assert!(began.elapsed() >= LEASE && began.elapsed() < LEASE * 2);
    alive.abort();
    let refused = table.leave_only(session(1), KEY, 1, &[]).expect_err("is gone");
    assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
    table.leave(session(2));
    let here = session(3);
    table.attach(here, false, Vec::new()).expect("attaches");
    let ask = LockAsk { key: KEY, held: held(5, 0, 1, true), patience: Patience::Try, ticket: 1, wait_ms: 1 };
    assert!(matches!(table.ask(here, ask).await, Ok(LockAnswer::Whole(_))));
    tokio::time::sleep(LEASE * 4).await;
    assert!(matches!(table.ask(here, ask).await, Ok(LockAnswer::Whole(_))));
}

#[tokio::test(start_paused = true)]
async fn a_table_that_begins_anew_lets_those_before_come_back_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let before = LockTable::new(Some(mark.clone()));
    before.attach(session(1), true, Vec::new()).expect("attaches");
    let LockAnswer::Whole(number) = ask(&before, 1, held(1, 0, 1, true), Patience::Try).await else { unreachable!() };
    before.stop();
    assert!(mark.exists(), "somebody has locks");
    let after = Arc::new(LockTable::new(Some(mark.clone())));
    after.attach(session(2), true, Vec::new()).expect("attaches");
    let other = tokio::spawn({
        let after = after.clone();
        async move { ask(&after, 2, held(1, 0, 1, true), Patience::Wait).await }
    });
    tokio::time::sleep(LEASE / 2).await;
    after.recalls(session(2), Duration::ZERO).await.expect("is there");
    let kept = |whole| vec![Kept { key: KEY, whole, held: Vec::new() }];
    after.attach(session(1), true, kept(Some(number))).expect("comes back");
    tokio::time::sleep(LEASE / 2 + Duration::from_millis(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(after.recalls(session(1), LEASE).await.expect("hears"), [(KEY, number)]);
    after.yield_whole(session(1), KEY, number, &[]).expect("yields");
    assert!(matches!(other.await.expect("ends"), LockAnswer::Whole(later) if later > number));
    // What another has by now is not to be had back.
    let refused = after.attach(session(1), true, kept(Some(number))).expect_err("is another's");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    after.leave(session(1));
    after.leave(session(2));
    after.stop();
    assert!(!mark.exists(), "nobody has any");
}

#[tokio::test(start_paused = true)]
async fn there_are_only_so_many() {
    let table = table();
    contended(&table, &[]).await;
    contended(&table, &[]).await;
    let many: Vec<Held> = (0..=HELD_MAX as u64).map(|at| held(1, 2 * at, 2 * at + 1, true)).collect();
    let LockAnswer::Whole(number) = ask(&table, 1, held(1, 0, 1, true), Patience::Try).await else { unreachable!() };
    assert_eq!(table.yield_whole(session(1), KEY, number, &many).expect_err("too many").kind(), ErrorKind::NoSpace);
    table.yield_whole(session(1), KEY, number, &many[1..]).expect("as many as there can be");
    let ask = LockAsk { key: KEY, held: held(2, 0, 1, true), patience: Patience::Try, ticket: 1, wait_ms: 1 };
    assert_eq!(table.ask(session(2), ask).await.expect_err("too many").kind(), ErrorKind::NoSpace);
    let nothing = LockAsk { held: held(2, 1, 1, true), ..ask };
    assert_eq!(table.ask(session(2), nothing).await.expect_err("of nothing").kind(), ErrorKind::InvalidInput);
}

proptest! {
    /// Against a byte each.
    #[test]
    fn ranges_do_what_a_lock_of_each_byte_would(
        steps in proptest::collection::vec((0..3_usize, 0..20_usize, 1..10_usize, 0..3_u8), 1..60)
    ) {
        let mut ranges = Ranges::<u64>::default();
        let mut bytes = [[None::<bool>; 3]; 32];
        for (owner, start, length, what) in steps {
            let of = start..start + length;
            let wanted = held(owner as u64, of.start as u64, of.end as u64, what == 2);
            let busy = bytes[of.clone()].iter().any(|byte| {
                byte.iter().enumerate().any(|(other, has)| other != owner && has.is_some_and(|has| has || what == 2))
            });
            prop_assert_eq!(ranges.conflicts(wanted).next().is_some(), busy);
            if what > 0 && busy {
                continue;
            }
            let has = (what > 0).then_some(what == 2);
            ranges.set(owner as u64, wanted.range, has);
            bytes[of].iter_mut().for_each(|byte| byte[owner] = has);
            for (at, byte) in bytes.iter().enumerate() {
                for (owner, has) in byte.iter().enumerate() {
                    let found = ranges.of(owner as u64).into_iter().find(|held| held.range.start <= at as u64 && (at as u64) < held.range.end);
                    prop_assert_eq!(found.map(|held| held.exclusive), *has);
                }
            }
            // No two that could be one.
            for owner in 0..3 {
                let own = ranges.of(owner);
                prop_assert!(own.windows(2).all(|two| two[0].range.end < two[1].range.start || two[0].exclusive != two[1].exclusive));
            }
        }
    }
}
