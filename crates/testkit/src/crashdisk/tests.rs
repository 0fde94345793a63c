//! The model alone, without a mount: what survives, what may vanish, what must not.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use fuser::{Errno, RenameFlags};

use super::config::Config;
use super::fault::matches;
use super::file::FileData;
use super::image::{Image, Snapshot};
use super::state::{Ino, Node, Owner, ROOT, State};

const OWNER: Owner = Owner { uid: 0, gid: 0, perm: 0o644 };
/// Enough draws to meet every kind of weather.
const SEEDS: std::ops::Range<u64> = 0..400;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn file(state: &mut State, folder: Ino, called: &str) -> Ino {
    let node = Node::File(FileData::default());
    let made = state.create(folder, name(called), node, OWNER);
    made.expect("room for a file")
}

fn folder(state: &mut State, parent: Ino, called: &str) -> Ino {
    let node = Node::Folder(Box::default());
    let made = state.create(parent, name(called), node, OWNER);
    made.expect("room for a folder")
}

fn rename(state: &mut State, from: (Ino, &str), to: (Ino, &str)) {
    let (from, to) = ((from.0, name(from.1)), (to.0, name(to.1)));
    let moved = state.rename(from, to, RenameFlags::empty());
    moved.expect("a move of something that exists");
}

/// A disk with one durable file `f` of `content`.
fn disk_with(config: Config, content: &[u8]) -> (State, Ino) {
    let mut state = State::empty(config);
    let ino = file(&mut state, ROOT, "f");
    state.write(ino, 0, content).expect("room");
    state.sync_file(ino, false).expect("a file");
    state.sync_folder(ROOT).expect("a folder");
    (state, ino)
}

fn images(state: &State) -> impl Iterator<Item = Image> {
    let snapshot = Snapshot(state.clone());
    SEEDS.map(move |seed| snapshot.crash(seed))
}

/// Every content that `f` has in some image; `None` where it is missing.
fn outcomes(state: &State) -> BTreeSet<Option<Vec<u8>>> {
    images(state).map(|image| image.read("f")).collect()
}

#[test]
fn synced_content_under_a_synced_name_always_survives() {
    for config in [Config::default(), Config::ext4_like()] {
        let (state, _) = disk_with(config, &[7; 10_000]);
        assert_eq!(outcomes(&state), [Some(vec![7; 10_000])].into());
    }
}

#[test]
fn an_unsynced_write_may_vanish_and_may_survive() {
    let (mut state, ino) = disk_with(Config::default(), b"old");
    state.write(ino, 0, b"new").expect("room");
    let seen = outcomes(&state);
    assert_eq!(seen, [Some(b"old".to_vec()), Some(b"new".to_vec())].into());
}

#[test]
fn pages_of_one_write_survive_independently_and_in_any_order() {
    let (mut state, ino) = disk_with(Config::default(), &[0; 8192]);
    state.write(ino, 0, &[1; 4096]).expect("room");
    state.write(ino, 4096, &[1; 4096]).expect("room");
    let firsts: BTreeSet<(u8, u8)> =
        images(&state).filter_map(|image| image.read("f")).map(|content| (content[0], content[4096])).collect();
    assert_eq!(firsts, [(0, 0), (0, 1), (1, 0), (1, 1)].into());
}

#[test]
fn a_page_may_be_torn_at_sectors_and_only_there() {
    let (mut state, ino) = disk_with(Config::default(), &[0; 4096]);
    state.write(ino, 0, &[1; 4096]).expect("room");
    let mut torn = 0;
    for content in images(&state).filter_map(|image| image.read("f")) {
        let sectors: Vec<u8> = content.chunks(512).map(|sector| sector[0]).collect();
        assert!(content.chunks(512).all(|s| s.iter().all(|&b| b == s[0])));
        torn += usize::from(sectors.iter().any(|&s| s != sectors[0]));
    }
    assert!(torn > 0, "no page was torn");
}

#[test]
fn equal_seeds_give_equal_images() {
    let (mut state, ino) = disk_with(Config::default(), &vec![0; 100_000]);
    state.write(ino, 50_000, &vec![9; 100_000]).expect("room");
    let snapshot = Snapshot(state);
    for seed in SEEDS {
        assert_eq!(snapshot.crash(seed).read("f"), snapshot.crash(seed).read("f"));
    }
}

#[test]
fn a_strict_disk_forgets_the_name_of_a_synced_file() {
    let mut state = State::empty(Config::default());
    let ino = file(&mut state, ROOT, "f");
    state.sync_file(ino, false).expect("a file");
    assert_eq!(outcomes(&state), [None, Some(Vec::new())].into());
}

#[test]
fn an_ext4_like_disk_keeps_the_name_of_a_synced_file() {
    let mut state = State::empty(Config::ext4_like());
    let ino = file(&mut state, ROOT, "f");
    state.sync_file(ino, false).expect("a file");
    assert_eq!(outcomes(&state), [Some(Vec::new())].into());
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one_and_never_none() {
    for config in [Config::default(), Config::ext4_like()] {
        let (mut state, _) = disk_with(config, b"old");
        let aside = file(&mut state, ROOT, "aside");
        state.write(aside, 0, b"new").expect("room");
        state.sync_file(aside, false).expect("a file");
        rename(&mut state, (ROOT, "aside"), (ROOT, "f"));
        let seen = outcomes(&state);
        assert_eq!(seen, [Some(b"old".to_vec()), Some(b"new".to_vec())].into());
        state.sync_folder(ROOT).expect("a folder");
        assert_eq!(outcomes(&state), [Some(b"new".to_vec())].into());
        assert!(images(&state).all(|image| !image.exists("aside")));
    }
}

#[test]
fn a_rename_without_a_sync_of_the_content_can_lose_both() {
    for config in [Config::default(), Config::ext4_like()] {
        let (mut state, _) = disk_with(config, b"old");
        let aside = file(&mut state, ROOT, "aside");
        state.write(aside, 0, b"new").expect("room");
        rename(&mut state, (ROOT, "aside"), (ROOT, "f"));
        assert!(outcomes(&state).contains(&Some(Vec::new())), "{config:?}");
    }
}

#[test]
fn a_file_in_a_folder_that_was_not_synced_into_its_parent_may_be_lost() {
    let mut state = State::empty(Config::default());
    let inner = folder(&mut state, ROOT, "d");
    let ino = file(&mut state, inner, "f");
    state.sync_file(ino, false).expect("a file");
    state.sync_folder(inner).expect("a folder");
    assert!(images(&state).any(|image| !image.exists("d/f")));
    state.sync_folder(ROOT).expect("a folder");
    assert!(images(&state).all(|image| image.exists("d/f")));
}

#[test]
fn a_removed_file_may_come_back_with_its_content_until_its_folder_is_synced() {
    let (mut state, _) = disk_with(Config::default(), b"kept");
    state.unlink(ROOT, name("f")).expect("a file");
    assert_eq!(outcomes(&state), [None, Some(b"kept".to_vec())].into());
    state.sync_folder(ROOT).expect("a folder");
    assert_eq!(outcomes(&state), [None].into());
    assert_eq!(state.used_bytes(), 0, "the inode is freed");
}

#[test]
fn syncing_one_folder_of_a_move_stores_the_whole_move_and_what_it_builds_on() {
    let mut state = State::empty(Config::default());
    let (a, b) = (folder(&mut state, ROOT, "a"), folder(&mut state, ROOT, "b"));
    state.sync_folder(ROOT).expect("a folder");
    let ino = file(&mut state, a, "f");
    state.write(ino, 0, b"x").expect("room");
    state.sync_file(ino, false).expect("a file");
    file(&mut state, a, "unrelated");
    rename(&mut state, (a, "f"), (b, "f"));
    state.sync_folder(b).expect("a folder");
    assert!(images(&state).all(|i| i.read("b/f") == Some(b"x".to_vec()) && !i.exists("a/f")));
    assert!(images(&state).any(|i| !i.exists("a/unrelated")));
}

#[test]
fn moved_folders_never_become_unreachable() {
    let mut state = State::empty(Config::default());
    let a = folder(&mut state, ROOT, "a");
    let b = folder(&mut state, a, "b");
    file(&mut state, b, "f");
    for ino in [ROOT, a, b] {
        state.sync_folder(ino).expect("a folder");
    }
    rename(&mut state, (a, "b"), (ROOT, "b"));
    rename(&mut state, (ROOT, "a"), (b, "a"));
    assert!(images(&state).all(|image| image.files().len() == 1));
}

#[test]
fn a_file_that_grew_without_a_sync_shows_zeros_or_garbage_on_a_strict_disk() {
    let (mut state, ino) = disk_with(Config::default(), b"");
    state.write(ino, 0, &[5; 4096]).expect("room");
    let grown: BTreeSet<Vec<u8>> =
        outcomes(&state).into_iter().flatten().filter(|content| content.len() == 4096).collect();
    assert!(grown.contains(&vec![0; 4096]), "zeros");
    assert!(grown.iter().any(|c| c.iter().any(|&b| b != 0 && b != 5)), "garbage");
}

#[test]
fn a_file_that_grew_on_an_ext4_like_disk_holds_the_data_it_grew_by() {
    let (mut state, ino) = disk_with(Config::ext4_like(), b"");
    state.write(ino, 0, &[5; 4096]).expect("room");
    let seen = outcomes(&state);
    assert_eq!(seen, [Some(Vec::new()), Some(vec![5; 4096])].into());
}

#[test]
fn a_failed_sync_drops_the_dirty_pages_and_the_next_one_does_not_store_them() {
    let (mut state, ino) = disk_with(Config::default(), b"old");
    state.write(ino, 0, b"new").expect("room");
    state.fail_sync(ino);
    state.sync_file(ino, false).expect("the second sync succeeds");
    assert_eq!(outcomes(&state), [Some(b"old".to_vec())].into());
    assert_eq!(Snapshot(state.clone()).clean().read("f"), Some(b"new".to_vec()));
    state.write(ino, 1, b"E").expect("room");
    state.sync_file(ino, false).expect("a file");
    assert_eq!(outcomes(&state), [Some(b"nEw".to_vec())].into());
}

#[test]
fn a_cut_file_that_grows_again_reads_zeros() {
    let (mut state, ino) = disk_with(Config::default(), &[9; 6000]);
    state.set_size(ino, 1000).expect("a file");
    state.set_size(ino, 6000).expect("a file");
    let content = state.file(ino).expect("a file").read(0, 6000);
    assert!(content[..1000].iter().all(|&b| b == 9));
    assert!(content[1000..].iter().all(|&b| b == 0));
}

#[test]
fn a_full_disk_refuses_growth_and_accepts_overwrites_and_removal() {
    let config = Config::default().with_capacity(8192);
    let (mut state, ino) = disk_with(config, &[1; 8192]);
    assert_eq!(state.write(ino, 8192, b"x"), Err(Errno::ENOSPC));
    assert_eq!(state.write(ino, 0, &[2; 8192]), Ok(()));
    state.set_size(ino, 0).expect("a file");
    assert_eq!(state.write(ino, 0, &[3; 8192]), Ok(()));
}

#[test]
fn reads_and_writes_at_any_offset_match_a_flat_array() {
    let (mut state, ino) = disk_with(Config::default(), b"");
    let mut flat: Vec<u8> = Vec::new();
    let mut rng = crate::rng::Prng::new(1);
    for _ in 0..500 {
        let (offset, len) = (rng.index(20_000), rng.index(9_000));
        let mut data = vec![0; len];
        rng.fill(&mut data);
        if len > 0 {
            flat.resize(flat.len().max(offset + len), 0);
            flat[offset..offset + len].copy_from_slice(&data);
        }
        if rng.chance(0.2) {
            flat.resize(rng.index(20_000), 0);
        }
        state.write(ino, offset as u64, &data).expect("room");
        state.set_size(ino, flat.len() as u64).expect("a file");
        assert_eq!(state.file(ino).expect("a file").read(0, 40_000), flat);
        if rng.chance(0.1) {
            state.sync_file(ino, true).expect("a file");
            assert_eq!(Snapshot(state.clone()).crash(0).read("f"), Some(flat.clone()));
        }
    }
}

#[test]
fn patterns_match_paths() {
    for (pattern, path) in [("*", "a/b"), ("*.db", "x/y.db"), ("packs/*.aside", "packs/1/2.aside")] {
        assert!(matches(pattern.as_bytes(), path.as_bytes()), "{pattern} {path}");
    }
    for (pattern, path) in [("*.db", "x.db-wal"), ("packs/*", "pack/1"), ("", "a")] {
        assert!(!matches(pattern.as_bytes(), path.as_bytes()), "{pattern} {path}");
    }
}
