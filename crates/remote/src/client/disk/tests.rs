use super::*;
use holdfast_base::{NodeId, Uid};
use holdfast_seal::{BlockKeys, SpaceKey};
use std::fs;

const MIB: u64 = 1 << 20;

fn sealing(byte: u8) -> Arc<Sealing> {
    Arc::new(Sealing::of(BlockKeys::derive(Uid([byte; 16]), &SpaceKey::from_bytes([byte; 32]))))
}

fn open(folder: &Path, bytes_max: u64) -> Arc<Disk> {
    Arc::new(Disk::open_with(folder, bytes_max, 0, sealing(1)).expect("opens"))
}

/// A block that is like no other, and its record.
fn block(number: u64, bytes: usize) -> (BlockId, Bytes, Vec<u8>) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[5]
    };
    let plain: Vec<u8> = (0..bytes).map(|_| next()).collect();
    let keys = sealing(1);
    let id = keys.id(&plain);
    (id, keys.seal_block(id, &plain).expect("sealed"), plain)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for area in ["kept", "pinned"] {
        for shard in fs::read_dir(folder.join(area)).expect("a folder") {
            let entries = fs::read_dir(shard.expect("an entry").path()).expect("a folder");
            all.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    all.sort();
    all
}

fn taken_by(folder: &Path) -> u64 {
    files(folder).iter().map(|path| taken(fs::metadata(path).expect("there").len())).sum()
}

#[test]
fn a_cache_never_takes_more_than_its_bound_also_when_it_gets_smaller() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = open(folder.path(), MIB);
    for number in 0..200 {
        let (id, record, plain) = block(number, 3_000 + 97 * usize::try_from(number).expect("small"));
        assert_eq!(disk.keep_block(id, &record, false), Kept::Yes);
        assert_eq!(disk.block(id).expect("it was just kept"), plain);
        assert!(taken_by(folder.path()) <= MIB, "after {number}");
    }
    let told = disk.condition();
    assert_eq!(told.bytes, taken_by(folder.path()));
    assert!(told.evicted > 50 && told.damaged == 0 && told.trouble.is_none(), "{told:?}");
    drop(disk);
    let disk = open(folder.path(), MIB / 4);
    assert!(taken_by(folder.path()) <= MIB / 4);
    assert_eq!(disk.condition().bytes, taken_by(folder.path()));
    let (id, record, _) = block(9_999, 900_000);
    assert_eq!(disk.keep_block(id, &record, false), Kept::NoRoom, "it is larger than all of it");
}

#[test]
fn whatever_byte_of_a_file_is_another_it_is_noticed_and_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = open(folder.path(), MIB);
    let (id, record, plain) = block(1, 300);
    let folder_name = Name::Folder(NodeId(7));
    let what: Vec<(NodeId, String)> = vec![(NodeId(1), "a".repeat(50))];
    disk.keep_block(id, &record, false);
    disk.keep(folder_name, &what, false);
    let all = files(folder.path());
    assert_eq!(all.len(), 2);
    let mut noticed = 0;
    for path in all {
        let whole = fs::read(&path).expect("read");
        let is_block = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("b-"));
        let is_good = || {
            let as_it_was = if is_block {
                disk.block(id).map(|found| found == plain)
            } else {
                disk.find::<Vec<(NodeId, String)>>(folder_name).map(|found| found == what)
            };
            assert_ne!(as_it_was, Some(false), "something else is served");
            as_it_was.is_some()
        };
        let again = || {
            disk.keep_block(id, &record, false);
            disk.keep(folder_name, &what, false);
            fs::write(&path, &whole).expect("written");
        };
        let mut harms: Vec<Vec<u8>> = (0..whole.len())
            .map(|at| {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                flipped
            })
            .collect();
        harms.extend((0..whole.len()).step_by(7).map(|end| whole[..end].to_vec()));
        harms.push([&whole[..], b"more"].concat());
        for (number, harm) in harms.into_iter().enumerate() {
            again();
            assert!(is_good());
            fs::write(&path, &harm).expect("written");
            // The sum at a record's end is for those without a key: what is in it is as it was.
            if !is_good() {
                noticed += 1;
                assert!(!path.exists(), "what is damaged does not stay ({number})");
            }
        }
        again();
        fs::remove_file(&path).expect("removed");
        assert!(!is_good(), "what somebody removed is not there");
    }
    assert!(noticed > 600, "{noticed}");
    assert_eq!(disk.condition().damaged, noticed + 2);
}

#[test]
fn files_that_changed_places_and_those_of_another_space_do_not_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = open(folder.path(), MIB);
    let [one, two] = [1_i64, 2].map(|number| Name::Folder(NodeId(number)));
    disk.keep(one, &1_u64, false);
    disk.keep(two, &2_u64, false);
    let (first, second) = (block(1, 400), block(2, 400));
    disk.keep_block(first.0, &first.1, false);
    disk.keep_block(second.0, &second.1, false);
    let at = |name: Name| folder.path().join(format!("kept/{:02x}/{name}", name.shard()));
    for (this, that) in [(at(one), at(two)), (at(Name::Block(first.0)), at(Name::Block(second.0)))] {
        let (here, there) = (fs::read(&this).expect("read"), fs::read(&that).expect("read"));
        fs::write(this, there).expect("written");
        fs::write(that, here).expect("written");
    }
    assert_eq!((disk.find::<u64>(one), disk.find::<u64>(two)), (None, None));
    assert!(disk.block(first.0).is_none() && disk.block(second.0).is_none());
    disk.keep(one, &1_u64, false);
    disk.keep_block(first.0, &first.1, false);
    drop(disk);
    let theirs = Disk::open_with(folder.path(), MIB, 0, sealing(2)).expect("opens");
    assert_eq!(theirs.find::<u64>(one), None);
    assert!(theirs.block(first.0).is_none());
    assert_eq!(theirs.condition().damaged, 2);
}

#[test]
fn what_is_pinned_stays_within_its_share_and_is_known_by_the_next_mount() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = open(folder.path(), MIB);
    let blocks: Vec<_> = (0..40).map(|number| block(number, 60_000)).collect();
    let kept: Vec<Kept> = blocks.iter().map(|(id, record, _)| disk.keep_block(*id, record, true)).collect();
    let fit = kept.iter().filter(|kept| **kept == Kept::Yes).count();
    assert!(kept[..fit].iter().all(|kept| *kept == Kept::Yes) && kept[fit..].iter().all(|kept| *kept == Kept::NoRoom));
    assert!(disk.condition().pinned_bytes <= MIB / 100 * 90 && fit > 12, "{fit}");
    let (other, record, _) = &blocks[39];
    assert_eq!(disk.keep_block(*other, record, false), Kept::Yes, "there is room beside it");
    assert_eq!(disk.pin(Name::Block(*other), true), Kept::NoRoom);
    assert_eq!(disk.pin(Name::Block(block(77, 10).0), true), Kept::Failed, "it is not here");
    drop(disk);
    let disk = open(folder.path(), MIB);
    for number in 1_000..1_100 {
        let (id, record, _) = block(number, 40_000);
        disk.keep_block(id, &record, false);
    }
    assert!(blocks[..fit].iter().all(|(id, ..)| disk.block(*id).is_some()), "pinned things went");
    let (id, record, _) = &blocks[0];
    disk.keep_block(*id, record, false);
    assert!(disk.are_pinned(&[Name::Block(*id)]), "kept once more, it is pinned still");
    disk.forget(Name::Block(*id), false);
    assert!(disk.has(Name::Block(*id)));
    assert_eq!(disk.pin(Name::Block(*id), false), Kept::Yes);
    disk.forget(Name::Block(*id), false);
    assert!(!disk.has(Name::Block(*id)));
    disk.forget(Name::Block(blocks[1].0), true);
    assert!(!disk.has(Name::Block(blocks[1].0)));
    assert_eq!(disk.condition().bytes, taken_by(folder.path()));
}

#[test]
fn a_disk_that_takes_nothing_more_ends_keeping_until_it_does_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // More than any disk has is to be left.
    let full = Disk::open_with(folder.path(), MIB, u64::MAX / 4, sealing(1)).expect("opens");
    let (id, record, _) = block(1, 5_000);
    assert_eq!(full.keep_block(id, &record, false), Kept::Failed);
    assert!(full.block(id).is_none());
    let told = full.condition();
    assert_eq!((told.skipped, told.bytes), (1, 0));
    assert!(told.trouble.is_some());
    drop(full);

    let disk = open(folder.path(), MIB);
    // What it writes to is gone, whoever it is run by.
    fs::remove_dir(folder.path().join("new")).expect("removed");
    assert_eq!(disk.keep_block(id, &record, false), Kept::Failed);
    assert!(disk.condition().trouble.is_some());
    fs::create_dir(folder.path().join("new")).expect("made");
    assert_eq!(disk.keep_block(id, &record, false), Kept::Yes);
    assert!(disk.condition().trouble.is_none() && disk.block(id).is_some());
}

#[test]
fn notes_beside_the_things_are_read_back_and_a_damaged_one_is_an_error_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = open(folder.path(), MIB);
    assert_eq!(disk.note::<u64>("pins").expect("none yet"), None);
    disk.write_note("pins", &7_u64).expect("written");
    assert_eq!(disk.note::<u64>("pins").expect("read"), Some(7));
    let path = folder.path().join("pins");
    let mut bytes = fs::read(&path).expect("read");
    bytes[70] ^= 1;
    fs::write(&path, bytes).expect("written");
    assert!(disk.note::<u64>("pins").is_err());
    assert_eq!(disk.note::<u64>("pins").expect("it was put aside"), None);
}
