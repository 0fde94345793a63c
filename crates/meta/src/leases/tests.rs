//! One process's leases, in virtual time.

use super::*;
use crate::catalogue::Change;
use std::collections::BTreeSet;
use tokio::time::advance;

const ONE: Mount = mount(1);
const OTHER: Mount = mount(2);

const fn mount(number: u64) -> Mount {
    Mount { space: SpaceId(1), account: AccountId(1), number }
}

fn by(voice: u64, seq: i64) -> Change {
    Change { space: SpaceId(1), since: seq - 1, seq, by: voice }
}

/// It was changed.
fn changed(leases: &Arc<Leases>, change: Change, touched: Touched) -> Option<Wait> {
    leases.changed(&Noted { maker: change.by, change, touched })
}

fn of(folders: impl IntoIterator<Item = i64>) -> Touched {
    Touched::Folders(folders.into_iter().map(NodeId).collect::<BTreeSet<_>>())
}

/// The next word of a mount: it has heard of what it was asked about up to this change.
fn hears(leases: &Leases, mount: Mount, seq: i64, forgot: bool) -> bool {
    let word = leases.state.lock().mounts.get(&mount).map(|told| {
        let asked = told.outstanding.iter().map(|it| &it.owed).filter(|owed| owed.seq <= seq);
        Word { number: told.word + 1, heard: asked.map(|owed| owed.ask).max().unwrap_or(0), forgot }
    });
    leases.hear(mount, 10 * mount.number, word.unwrap_or(Word { number: 1, heard: 0, forgot }))
}

/// Up to which change it is to hear of all.
fn owed(leases: &Leases, mount: Mount) -> Option<i64> {
    leases.owed(mount, 0).map(|owed| owed.seq)
}

fn grant(leases: &Arc<Leases>, mount: Mount, folder: i64) {
    assert!(
        leases.grant(mount, [NodeId(folder)], leases.mark(mount, 10 * mount.number)).is_none(),
        "nothing changed meanwhile"
    );
}

/// Whether somebody waits yet.
async fn waits(wait: &mut std::pin::Pin<Box<impl Future<Output = ()>>>) -> bool {
    tokio::select! {
        biased;
        () = wait => false,
        () = tokio::task::yield_now() => true,
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_told_of_a_folder_is_waited_for_once() {
    let leases = Arc::<Leases>::default();
    assert!(changed(&leases, by(0, 1), Touched::All).is_none(), "nobody believes anything");
    assert!(hears(&leases, ONE, 1, false) && hears(&leases, OTHER, 1, false));
    grant(&leases, ONE, 5);
    grant(&leases, OTHER, 6);
    assert!(changed(&leases, by(0, 2), of([7])).is_none(), "nobody was told of it");
    assert!(changed(&leases, by(10, 3), of([5])).is_none(), "it knows its own changes");
    let of_more = Noted { change: by(0, 3), touched: Touched::All, maker: 10 };
    assert!(
        leases.changed(&of_more).is_some_and(|wait| wait.mounts.len() == 1),
        "it looks again, and is not waited for"
    );
    assert!(hears(&leases, ONE, 3, true) && hears(&leases, OTHER, 3, true));
    grant(&leases, ONE, 5);
    grant(&leases, OTHER, 6);
    let elsewhere = Change { space: SpaceId(2), ..by(0, 4) };
    assert!(changed(&leases, elsewhere, Touched::All).is_none(), "another space");
    let mut wait = Box::pin(changed(&leases, by(20, 4), of([5, 6])).expect("one was told").over());
    assert!(waits(&mut wait).await);
    assert_eq!((owed(&leases, ONE), owed(&leases, OTHER)), (Some(4), None));
    let mut next = Box::pin(changed(&leases, by(20, 5), of([5])).expect("it has not heard of it yet").over());
    assert!(changed(&leases, by(20, 6), of([7])).is_none(), "nor was it told of this");
    assert!(hears(&leases, ONE, 3, false) && waits(&mut wait).await, "that is of before");
    assert!(hears(&leases, ONE, 4, true) && !waits(&mut wait).await && !waits(&mut next).await);
    assert_eq!(owed(&leases, ONE), None);
    assert!(changed(&leases, by(20, 7), of([5])).is_none(), "it was told once, and believes nothing of it");
    grant(&leases, ONE, 5);
    assert!(changed(&leases, by(0, 8), Touched::All).is_some(), "it asked again");
    assert!(hears(&leases, ONE, 8, true) && hears(&leases, OTHER, 8, true));
    assert!(changed(&leases, by(0, 9), Touched::All).is_none(), "each was told of it");
    assert!(
        !leases.hear(ONE, 10, Word { number: 3, heard: u64::MAX, forgot: true }),
        "a word from before the last one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_mount_keeps_one_change_waiting_and_for_no_longer_than_it_believes() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, false));
    grant(&leases, ONE, 5);
    grant(&leases, ONE, 6);
    advance(Duration::from_secs(1)).await;
    let (began, wait) = (Instant::now(), changed(&leases, by(0, 1), of([5])).expect("was told"));
    wait.over().await;
    assert_eq!(began.elapsed(), Duration::from_secs(2), "three from its last word");
    assert!(changed(&leases, by(0, 2), of([6])).is_none(), "it is given up, with all that it was told");
    assert_eq!(leases.mounts.load(Ordering::Acquire), 0);
    // It comes back, and begins anew.
    assert!(hears(&leases, ONE, 0, false));
    assert!(changed(&leases, by(0, 3), of([5, 6])).is_none());
}

#[tokio::test(start_paused = true)]
async fn words_of_one_that_does_not_hear_are_taken_for_a_second_more() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, false));
    grant(&leases, ONE, 5);
    let (began, wait) = (Instant::now(), changed(&leases, by(0, 9), of([5])).expect("was told"));
    let speaks = async {
        let mut taken = Vec::new();
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            taken.push(hears(&leases, ONE, 8, true));
        }
        taken
    };
    let ((), taken) = tokio::join!(wait.over(), speaks);
    assert_eq!(taken, [true, true, false, false, false, false, false, false]);
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_until_its_mount_has_heard_of_what_it_missed() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, false));
    let mark = leases.mark(ONE, 10);
    assert!(changed(&leases, by(0, 1), of([5])).is_none(), "not told yet");
    assert!(leases.grant(ONE, [NodeId(6)], mark).is_none(), "it was about another folder");
    let bell = leases.bell(ONE);
    let mut wait = Box::pin(leases.grant(ONE, [NodeId(5)], mark).expect("what is read may be of before").over());
    assert!(waits(&mut wait).await);
    bell.notified().await;
    assert_eq!(owed(&leases, ONE), Some(1));
    assert!(hears(&leases, ONE, 1, true) && !waits(&mut wait).await);
    let mark = leases.mark(ONE, 10);
    assert!(changed(&leases, by(10, 2), Touched::All).is_none());
    assert!(leases.grant(ONE, [NodeId(5)], mark).is_none(), "its own");
    // So many changes that this one is not remembered.
    let mark = leases.mark(ONE, 10);
    for seq in (10..).take(RECENT_MAX + 1) {
        assert!(changed(&leases, by(0, seq), of([77])).is_none());
    }
    assert!(leases.grant(ONE, [NodeId(6)], mark).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_mount_has_forgotten_is_not_waited_for() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, false));
    grant(&leases, ONE, 5);
    assert!(hears(&leases, ONE, 0, false));
    grant(&leases, ONE, 6);
    // What it was told since its last word it may have asked for after it forgot the rest.
    assert!(hears(&leases, ONE, 0, true));
    assert!(changed(&leases, by(0, 1), of([5])).is_none());
    assert!(changed(&leases, by(0, 2), of([6])).is_some());
    for folder in (100..).take(2 * FOLDERS_MAX + 1) {
        grant(&leases, ONE, folder);
    }
    assert!(changed(&leases, by(0, 3), of([7])).is_some(), "too many to be counted: it hears of all");
    assert_eq!(leases.owed(ONE, 0).map(|owed| owed.touched), Some(Touched::All), "and forgets all");
    assert!(hears(&leases, ONE, 3, true));
    assert!(changed(&leases, by(0, 4), of([7])).is_none());
}

#[tokio::test(start_paused = true)]
async fn who_hears_of_a_folder_goes_on_believing_of_others_and_is_told_of_all_that_it_has_not_heard_of() {
    let leases = Arc::<Leases>::default();
    let what = |after: u64| leases.owed(ONE, after).map(|owed| (owed.seq, owed.touched));
    assert!(hears(&leases, ONE, 0, false));
    let mark = leases.mark(ONE, 10);
    for folder in 5..8 {
        grant(&leases, ONE, folder);
    }
    let mut first = Box::pin(changed(&leases, by(0, 1), of([5])).expect("was told").over());
    let asked = leases.owed(ONE, 0).expect("is asked").ask;
    assert_eq!((what(0), what(asked)), (Some((1, of([5]))), None));
    advance(GRAIN).await;
    // Of before that, and asked about after it: heard of by the first number alone, the answer would be believed.
    assert!(changed(&leases, by(0, 2), of([9])).is_none());
    let mut answer = Box::pin(leases.grant(ONE, [NodeId(9)], mark).expect("it missed one").over());
    assert_eq!(what(asked), Some((2, of([5, 9]))));
    let word = Word { number: 2, heard: asked, forgot: false };
    assert!(leases.hear(ONE, 10, word) && !waits(&mut first).await && waits(&mut answer).await);
    assert_eq!(what(0), Some((2, of([9]))));
    assert!(hears(&leases, ONE, 2, false) && !waits(&mut answer).await);
    // It was told of one, and is waited for because of the others.
    assert!(changed(&leases, by(0, 3), of([5])).is_none());
    assert!(changed(&leases, by(0, 4), of([6, 7])).is_some());
    assert_eq!(what(0), Some((4, of([6, 7]))));
    assert!(changed(&leases, by(0, 5), of([9])).is_some(), "within the same moment");
    assert_eq!(what(0), Some((5, of([6, 7, 9]))));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_waited_for() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, false));
    grant(&leases, ONE, 5);
    let mut wait = Box::pin(changed(&leases, by(0, 1), of([5])).expect("was told").over());
    assert!(waits(&mut wait).await);
    leases.leave(ONE, 1);
    assert!(waits(&mut wait).await, "that was said before its last word");
    leases.leave(ONE, 2);
    assert!(!waits(&mut wait).await);
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_mounts_and_no_more() {
    let leases = Arc::<Leases>::default();
    for number in 1..=MOUNTS_MAX as u64 {
        let account = AccountId(i64::try_from(number).expect("fits") / 60);
        assert!(hears(&leases, Mount { account, ..mount(number) }, 0, false));
    }
    assert!(!hears(&leases, mount(5_000), 0, false), "it may not believe");
    advance(TERM).await;
    for number in 1..=MOUNTS_OF_ACCOUNT_MAX as u64 {
        assert!(hears(&leases, mount(number), 0, false), "those who said nothing are gone");
    }
    assert!(!hears(&leases, mount(5_000), 0, false), "the account has so many");
    assert!(hears(&leases, Mount { account: AccountId(9), ..mount(5_000) }, 0, false));
    assert_eq!(leases.mounts.load(Ordering::Acquire), MOUNTS_OF_ACCOUNT_MAX + 1);
}

/// Whether an account's mount may believe; it owes its word from then on, and is given up.
async fn holds_up(leases: &Arc<Leases>, seq: i64) -> bool {
    let may = hears(leases, ONE, seq, true);
    if may {
        grant(leases, ONE, 5);
        changed(leases, by(0, seq + 1), of([5])).expect("was told").over().await;
    }
    may
}

#[tokio::test(start_paused = true)]
async fn who_never_says_anything_does_not_hold_up_others_for_ever() {
    let leases = Arc::<Leases>::default();
    assert!(holds_up(&leases, 1).await, "once is no harm");
    assert!(hears(&leases, OTHER, 1, false), "another of the account");
    grant(&leases, OTHER, 6);
    assert!(holds_up(&leases, 2).await);
    assert!(!hears(&leases, OTHER, 2, false), "what one does is held against all of its account");
    for doublings in 0..8 {
        assert!(!holds_up(&leases, 3).await && hears(&leases, Mount { account: AccountId(2), ..OTHER }, 3, false));
        let pause = SHUNNED.saturating_mul(1 << doublings).min(SHUNNED_MAX);
        advance(pause.saturating_sub(Duration::from_millis(1))).await;
        assert!(!holds_up(&leases, 3).await);
        advance(Duration::from_millis(1)).await;
        assert!(holds_up(&leases, 3).await, "after {pause:?}");
    }
    advance(REMEMBERED).await;
    assert!(holds_up(&leases, 4).await && holds_up(&leases, 5).await, "it is long ago");
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_ended_without_a_word_is_forgotten_though_nothing_else_happens() {
    let leases = Arc::<Leases>::default();
    assert!(hears(&leases, ONE, 0, true));
    advance(TERM / 2).await;
    assert!(hears(&leases, OTHER, 0, true));
    leases.sweep();
    assert_eq!(leases.mounts.load(Ordering::Acquire), 2, "both may say something yet");
    advance(TERM / 2).await;
    leases.sweep();
    assert_eq!(leases.mounts.load(Ordering::Acquire), 1);
    assert!(!leases.has(ONE) && leases.has(OTHER));
}
