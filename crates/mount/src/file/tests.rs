//! Files that are open while others change them, over a real engine.

use super::OpenFile;
use crate::behind::tests::{Rig, bytes, look, make, save};
use crate::core::Core;
use crate::overlay::Room;
use holdfast_base::ByteRange;
use holdfast_drive::scratch::Scratch;
use holdfast_drive::{Durable, Posix};
use std::time::Duration;

async fn core(rig: &Rig) -> Core {
    let room = Room::new(1 << 20, Scratch::new(rig.folder.path().to_owned(), 1 << 30));
    Core::new(rig.tree().await, Posix { mode: 0o644, ..Posix::default() }, room, (Duration::from_secs(1), false))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_a_lock_came_here_does_not_undo_what_came_with_it() {
    let rig = Rig::new().await;
    let other = rig.tree().await;
    let made = make(&*other, "file").await;
    let old = save(&*other, &made, &bytes(1, 300_000)).await.expect("saved");
    let core = core(&rig).await;
    let file = OpenFile::new(&core, old.clone());
    assert_eq!(file.read(&core, 0, 9).await.expect("read"), bytes(1, 300_000)[..9]);
    // Somebody opens it, and the drive says what it is; before that is taken, another mount saves it and its lock comes here.
    let (asked_at, said) = (file.version(), look(&*core.tree, "file").await);
    let new = save(&*other, &old, &bytes(2, 200_000)).await.expect("saved");
    assert!(file.refresh_for_lock(&core, &new, file.version()).await);
    assert!(!file.refresh(&core, &said, asked_at), "it is older");
    assert_eq!((file.shown().entry.node.content, file.shown().entry.node.size), (new.node.content, 200_000));
    assert_eq!(file.read(&core, 0, 9).await.expect("read"), bytes(2, 200_000)[..9]);
    // Asked again, it is what it is; and what is written over it under the lock is saved.
    core.look_at(&file).await.expect("looked");
    file.write(&core, Some(5), b"own", false).await.expect("written");
    file.save(&core, Durable::Soon).await.expect("no conflict");
    let saved = look(&*other, "file").await;
    let content = other.open(saved.node.content.expect("has content")).await.expect("opened");
    let mut expected = bytes(2, 200_000);
    expected[5..8].copy_from_slice(b"own");
    assert!(content.read(ByteRange::whole(200_000)).await.expect("read") == expected);
}
