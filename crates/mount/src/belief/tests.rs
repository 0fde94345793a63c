//! What is written down of what the kernel was told, and taken back.

use super::{Belief, Shown, Turn};
use crate::attributes::attributes;
use crate::behind::tests::{Rig, make};
use crate::known::Known;
use fuser::INodeNo;
use holdfast_drive::Posix;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

/// A file, as it is answered.
async fn asked(belief: &Belief, name: &str) -> (INodeNo, Shown) {
    let entry = make(&*belief.tree, name).await;
    let ino = INodeNo(entry.number().0.unsigned_abs());
    (ino, Shown { attributes: attributes(&entry, ino, &Posix::default(), 1, false), open: false })
}

fn turn(belief: &Belief) -> Turn<'_> {
    Turn { belief, at: Some(1), told: Vec::new() }
}

#[tokio::test]
async fn what_was_taken_back_has_the_kernel_ask_no_more() {
    let rig = Rig::new().await;
    let belief = Belief::new(rig.tree().await, Arc::<Known>::default(), Duration::from_millis(100), true);
    let (ino, shown) = asked(&belief, "file").await;
    let (other, shown_other) = asked(&belief, "other").await;
    let root = INodeNo(1);
    let told = |turn: &mut Turn<'_>, name: &str, shown: &Shown| {
        assert!(turn.name(root, OsStr::new(name), shown).1 > Duration::from_secs(1));
    };
    // Before its answer is out, and after it.
    for early in [true, false] {
        let mut answer = turn(&belief);
        told(&mut answer, "file", &shown);
        told(&mut answer, "other", &shown_other);
        if early {
            belief.take_back(ino).await;
        }
        drop(answer);
        if !early {
            belief.take_back(ino).await;
        }
        let (inodes, mut names) = belief.overdue().expect("something was told");
        names.sort();
        assert_eq!(inodes, [other]);
        assert_eq!(names, [(1, "file".into()), (1, "other".into())]);
        assert!(belief.overdue().is_none());
    }
    // An answer that is on its way does not undo that for one that came after it.
    let (mut first, mut second) = (turn(&belief), turn(&belief));
    told(&mut first, "file", &shown);
    belief.take_back(ino).await;
    told(&mut second, "file", &shown);
    drop(first);
    assert!(belief.overdue().expect("a name").0.is_empty());
    drop(second);
    assert_eq!(belief.overdue().expect("told again").0, [ino]);
}

#[tokio::test]
async fn who_takes_back_waits_for_what_is_about_to_be_asked() {
    let rig = Rig::new().await;
    let belief = Belief::new(rig.tree().await, Arc::<Known>::default(), Duration::from_millis(100), true);
    let expiring = belief.expiring.clone().lock_owned().await;
    let wait = |time| tokio::time::timeout(Duration::from_millis(time), belief.take_back(INodeNo(7)));
    wait(50).await.expect_err("the kernel is being told");
    drop(expiring);
    wait(10_000).await.expect("it was told");
}
