//! The log of who did what: what is the same is one entry, what is too much is counted, and what is old goes.

use crate::support::{GOOD, START_MS, World};
use holdfast_auth::journal::WAITING_MAX;
use holdfast_auth::{Journal, JournalOptions};
use holdfast_meta::{AuditNote, AuditQuery};

const DAY_MS: i64 = 86_400_000;

fn journal(world: &World) -> Journal {
    let options = JournalOptions { node: "one".into(), days: 90, rows_max: 100_000, files: false };
    Journal::new(world.catalogue.clone(), world.clock.clone(), options)
}

async fn entries(world: &World) -> Vec<AuditNote> {
    let query = AuditQuery { limit: 10_000, ..AuditQuery::default() };
    world.catalogue.audit(query).await.expect("reads").into_iter().map(|entry| entry.note).collect()
}

#[tokio::test]
async fn a_flood_of_equal_failures_is_one_entry_and_what_is_too_much_is_counted() {
    let world = World::new();
    let journal = journal(&world);
    let failed = |object: &str| AuditNote {
        object: object.into(),
        result: "401".into(),
        ..journal.note("", Some([192, 0, 2, 1].into()), "signin.token")
    };
    for _ in 0..5_000 {
        journal.add(failed("same"));
    }
    journal.flush().await.expect("writes");
    let [one] = &entries(&world).await[..] else { panic!("one entry") };
    assert_eq!((one.detail.as_str(), one.address.as_str(), one.node.as_str()), ("5000 times", "192.0.2.1", "one"));
    for number in 0..WAITING_MAX + 7 {
        journal.add(failed(&number.to_string()));
    }
    journal.flush().await.expect("writes");
    let all = entries(&world).await;
    assert_eq!(all.len(), 1 + WAITING_MAX + 1);
    let lost = all.iter().find(|note| note.action == "audit.lost").expect("says so");
    assert_eq!(lost.detail, "7 entries");
}

#[tokio::test]
async fn sign_ins_are_written_but_no_name_that_is_none() {
    let world = World::new();
    let journal = journal(&world);
    world.auth.keep_journal(journal.clone());
    world.person("ana").await;
    for (name, secret) in [("ana", GOOD), ("ana", GOOD), ("ana", "wrong"), (GOOD, "typed in the wrong field")] {
        let _ = world.from("192.0.2.1", name, secret).await;
    }
    journal.flush().await.expect("writes");
    let mut lines: Vec<(String, String)> =
        entries(&world).await.into_iter().map(|note| (note.account, note.result)).collect();
    lines.sort();
    // The second time, the password was known to be right and not looked at.
    let wanted =
        [("", "401"), ("ana", "401"), ("ana", "ok")].map(|(name, result)| (name.to_owned(), result.to_owned()));
    assert_eq!(lines, wanted);
}

#[tokio::test]
async fn what_is_too_old_goes() {
    let world = World::new();
    let journal = journal(&world);
    for days in [0, 89, 91] {
        journal.add(AuditNote { at_ms: START_MS - days * DAY_MS, ..journal.note("ana", None, "x") });
    }
    journal.flush().await.expect("writes");
    journal.trim().await.expect("trims");
    assert_eq!(entries(&world).await.len(), 2);
}
