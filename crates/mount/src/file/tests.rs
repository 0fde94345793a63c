//! Files that are open while others change them, over a real engine.

use super::OpenFile;
use crate::behind::tests::{Rig, bytes, look, make, save};
use crate::core::Core;
use crate::known::Found;
use crate::meter::Kind;
use crate::overlay::Room;
use holdfast_base::{ByteRange, ContentId};
use holdfast_drive::scratch::Scratch;
use holdfast_drive::{Durable, Posix};
use std::sync::Arc;
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

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_kernel_to_forget_is_shown_and_goes_on_after_it() {
    let rig = Rig::new().await;
    let core = Arc::new(core(&rig).await);
    let made = make(&*core.tree, "file").await;
    let file = Arc::new(OpenFile::new(&core, made));
    // What it was told before is of another content.
    let ino = core.ino(file.id);
    core.known.tells(ino, Some(ContentId(77)));
    let being_told = file.forgetting.lock().await;
    let (opened, known) = (file.clone(), core.clone());
    let work = async move {
        known.has_only(&opened).await;
        Ok(())
    };
    let opening = tokio::spawn(core.meter.begin(Kind::Open, 1, ino.0, None).run(work));
    let waits_for = || core.meter.under_way().1.into_iter().find_map(|one| one.waits_for);
    let shown = async {
        while !waits_for().is_some_and(|what| what.contains("the kernel to forget")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), shown).await.expect("what it waits for is shown");
    assert_eq!(core.known.find(ino, None), Found::Other);
    drop(being_told);
    opening.await.expect("no panic").expect("opened");
    assert_eq!(core.known.find(ino, None), Found::This);
    assert!(waits_for().is_none());
}
