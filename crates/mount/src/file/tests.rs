//! Files that are open while others change them, over a real engine.

use super::OpenFile;
use crate::behind::tests::{Rig, bytes, look, make, read, save};
use crate::core::{Core, Maker};
use crate::early::{IN_VAIN_MAX, TRIED_EVERY, WAITING_MAX};
use crate::known::Found;
use crate::meter::Kind;
use crate::overlay::Room;
use holdfast_base::{ByteRange, ContentId};
use holdfast_drive::scratch::Scratch;
use holdfast_drive::{Durable, Entry, NodeKind, Posix, Special, Tree};
use std::sync::Arc;
use std::time::Duration;

async fn core(rig: &Rig) -> Core {
    core_of(rig, rig.tree().await)
}

fn core_of(rig: &Rig, tree: Arc<dyn Tree>) -> Core {
    let room = Room::new(1 << 20, Scratch::new(rig.folder.path().to_owned(), 1 << 30));
    Core::new(tree, Posix { mode: 0o644, ..Posix::default() }, room, (Duration::from_secs(1), false))
}

/// A new file that was opened and written from its beginning.
async fn written(core: &Core, name: &str, content: &[u8]) -> OpenFile {
    let file = OpenFile::new(core, make(&*core.tree, name).await);
    file.write(core, Some(0), content, false).await.expect("written");
    file
}

fn seals_early(core: &Core, file: &OpenFile) -> bool {
    file.seal_early(core).map(|turn| turn.seal(core)).is_some()
}

/// What everybody finds under a name.
async fn found(core: &Core, name: &str) -> Vec<u8> {
    read(&*core.tree, &look(&*core.tree, name).await).await.expect("read")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_before_a_close_is_saved_unless_the_file_became_another() {
    let rig = Rig::new().await;
    let core = core_of(&rig, Arc::new(rig.behind().await));
    let (text, more) = (bytes(1, 3_000), bytes(2, 500));
    // Written to again, cut off, made longer, and saved and written anew: what was sealed is not what is saved.
    let file = written(&core, "written", &text).await;
    assert!(seals_early(&core, &file));
    file.write(&core, Some(100), &more, false).await.expect("written");
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!(found(&core, "written").await, [&text[..100], &more, &text[600..]].concat());
    assert_eq!(core.early.in_vain(), 1);
    for size in [1_000, 5_000] {
        let name = format!("of {size}");
        let file = written(&core, &name, &text).await;
        assert!(seals_early(&core, &file));
        file.truncate(&core, size as u64, false).await.expect("cut");
        file.save(&core, Durable::Soon).await.expect("saved");
        let mut expected = text.clone();
        expected.resize(size, 0);
        assert_eq!(found(&core, &name).await, expected);
    }
    assert_eq!(core.early.in_vain(), 3);
    // As it was sealed, it is saved: what is in the drive is the very content, and the next try begins from nothing.
    let file = written(&core, "kept", &text).await;
    assert!(seals_early(&core, &file));
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!(found(&core, "kept").await, text);
    assert_eq!(core.early.in_vain(), 0, "it was used");
    file.write(&core, Some(0), &more, false).await.expect("written");
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!(found(&core, "kept").await, [&more, &text[500..]].concat(), "and not a second time");
    // A sync is past all journals, and what does not shrink to a row of the catalogue is a block.
    let file = written(&core, "synced", &text).await;
    assert!(seals_early(&core, &file));
    file.save(&core, Durable::Now).await.expect("saved");
    assert_eq!(found(&core, "synced").await, text);
    assert_eq!(core.early.in_vain(), 1);
    let large = bytes(3, 60_000);
    let file = written(&core, "large", &large).await;
    assert!(seals_early(&core, &file));
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!((found(&core, "large").await, core.early.in_vain()), (large.clone(), 0));
    core.tree.settle().await.expect("on the disk");
    let file = written(&core, "equal", &large).await;
    assert!(seals_early(&core, &file));
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!((found(&core, "equal").await, core.early.in_vain()), (large, 1), "the space has its block");
    let file = written(&core, "long", &bytes(4, 200_000)).await;
    assert!(file.seal_early(&core).is_none(), "it is no page");
    file.save(&core, Durable::Soon).await.expect("saved");
    assert_eq!(found(&core, "long").await, bytes(4, 200_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_made_of_a_file_that_was_sealed_before_its_close_is_kept_beside_it() {
    let rig = Rig::new().await;
    let core = core_of(&rig, Arc::new(rig.behind().await));
    let made = make(&*core.tree, "file").await;
    core.tree.hand_over().await.expect("handed over");
    let file = OpenFile::new(&core, made.clone());
    file.write(&core, Some(0), b"ours", false).await.expect("written");
    assert!(seals_early(&core, &file));
    let theirs: Entry = save(&*rig.tree().await, &look(&*core.tree, "file").await, b"theirs").await.expect("saved");
    assert_ne!(theirs.node.content, made.node.content);
    assert!(file.save(&core, Durable::Soon).await.is_err(), "who wrote is told");
    assert_eq!((found(&core, "file").await, found(&core, "file (2)").await), (b"theirs".to_vec(), b"ours".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn few_files_are_sealed_before_they_are_closed_and_none_where_that_is_in_vain() {
    let rig = Rig::new().await;
    let core = core_of(&rig, Arc::new(rig.behind().await));
    let mut open = Vec::new();
    for number in 0..WAITING_MAX + 2 {
        open.push(written(&core, &format!("open {number}"), b"open").await);
    }
    let sealed = open.iter().filter(|file| seals_early(&core, file)).count();
    assert_eq!((sealed, core.early.in_vain()), (WAITING_MAX, 0));
    for file in &open {
        file.save(&core, Durable::Soon).await.expect("saved");
    }
    // Nobody closes these as they were sealed.
    let file = written(&core, "log", b"line").await;
    let mut tried = Vec::new();
    for line in 0..IN_VAIN_MAX + 3 * TRIED_EVERY {
        if seals_early(&core, &file) {
            tried.push(line);
        }
        file.write(&core, None, b"line", false).await.expect("written");
        file.save(&core, Durable::Soon).await.expect("saved");
        file.write(&core, Some(0), b"Line", false).await.expect("written");
    }
    assert!(tried.iter().copied().take(IN_VAIN_MAX).eq(0..IN_VAIN_MAX), "{tried:?}");
    assert!((2..=4).contains(&(tried.len() - IN_VAIN_MAX)), "{tried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_turn_in_folders_has_the_group_of_each_that_hands_one_on() {
    let rig = Rig::new().await;
    let core = core(&rig).await;
    let maker = |gid, mode| Maker { uid: 1, gid, mode, rdev: 0 };
    let what = |kind| (kind, Special::None, bytes::Bytes::new());
    let root = fuser::INodeNo(1);
    let mut folders = Vec::new();
    for (name, gid, mode) in [("theirs", 7, 0o2775), ("own", 8, 0o755), ("others", 9, 0o2775)] {
        let made = core.make(root, name.as_ref(), maker(gid, mode), what(NodeKind::Folder)).await.expect("made");
        folders.push((core.ino(made.node.id), if mode & 0o2000 == 0 { 5 } else { gid }));
    }
    for round in 0..3 {
        for (folder, group) in &folders {
            let name = format!("file {round}");
            let made = core.make(*folder, name.as_ref(), maker(5, 0o644), what(NodeKind::File)).await.expect("made");
            assert_eq!(made.posix.expect("has attributes").gid, *group);
        }
    }
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
