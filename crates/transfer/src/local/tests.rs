use super::*;
use crate::part;
use crate::site::{Version, Wanted};
use bytes::Bytes;
use holdfast_base::ByteRange;
use holdfast_base::limits::BLOCK_BYTES;
use holdfast_testkit::rng::Prng;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

const BLOCK: usize = BLOCK_BYTES;

fn site() -> (TempDir, LocalSite) {
    let folder = tempfile::tempdir().expect("a folder");
    let site = LocalSite::open(folder.path()).expect("opens");
    (folder, site)
}

fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).expect(text)
}

fn wanted(name: &str, content: &[u8], key: &str) -> Wanted {
    let size = content.len() as u64;
    let modified_ns = Some(1_700_000_000_123_456_789);
    Wanted { path: path(name), size, modified_ns, mode: Some(0o640), key: key.into(), replaces: None, tags: Vec::new() }
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = Prng::new(seed);
    (0..=bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

/// Writes what is missing, up to a number of blocks.
async fn feed(incoming: &mut dyn Incoming, content: &[u8], blocks: usize) -> u64 {
    let stands = usize::try_from(incoming.stands_at()).expect("small");
    for block in content[stands..].chunks(BLOCK).take(blocks) {
        incoming.write(Bytes::copy_from_slice(block)).await.expect("writes");
    }
    stands as u64
}

/// Takes a whole file in; returns what stood of it.
async fn take_in(site: &LocalSite, wanted: &Wanted, content: &[u8]) -> Result<u64> {
    let mut incoming = site.begin(wanted).await?;
    let stands = feed(&mut *incoming, content, usize::MAX).await;
    let item = incoming.finish().await?;
    assert_eq!(site.look(&wanted.path).await.expect("looks"), Some(item));
    Ok(stands)
}

/// Takes some blocks in, and is killed: the part is dropped without a word.
async fn take_some(site: &LocalSite, wanted: &Wanted, content: &[u8], blocks: usize) {
    let mut incoming = site.begin(wanted).await.expect("begins");
    feed(&mut *incoming, content, blocks).await;
    incoming.pause().await;
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("lists");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn left(folder: &std::path::Path, ending: &str) -> std::path::PathBuf {
    let name = names(folder).into_iter().find(|name| name.ends_with(ending)).expect(ending);
    folder.join(name)
}

#[tokio::test]
async fn a_file_arrives_whole_with_its_time_and_mode_and_leaves_nothing_beside_it() {
    let (folder, site) = site();
    for bytes in [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
        let (content, name) = (random(bytes, 1), format!("f{bytes}"));
        assert_eq!(take_in(&site, &wanted(&name, &content, "k"), &content).await.expect("arrives"), 0);
        let at = folder.path().join(&name);
        assert!(std::fs::read(&at).expect("reads") == content, "{bytes}");
        let meta = at.metadata().expect("is there");
        assert_eq!(
            (meta.mtime(), meta.mtime_nsec(), meta.permissions().mode() & 0o7777),
            (1_700_000_000, 123_456_789, 0o640)
        );
    }
    assert_eq!(names(folder.path()).len(), 5, "{:?}", names(folder.path()));
}

#[tokio::test]
async fn what_was_written_before_a_kill_stands_and_is_not_written_again() {
    let (folder, site) = site();
    let content = random(5 * BLOCK + 77, 2);
    let wanted = wanted("f", &content, "k");
    take_some(&site, &wanted, &content, 3).await;
    assert!(site.look(&wanted.path).await.expect("looks").is_none(), "nothing is seen before its end");
    assert_eq!(take_in(&site, &wanted, &content).await.expect("arrives"), 3 * BLOCK as u64);
    assert!(std::fs::read(folder.path().join("f")).expect("reads") == content);
    assert_eq!(names(folder.path()), ["f"]);
}

#[tokio::test]
async fn only_what_has_its_sum_stands_whatever_became_of_both_files() {
    type Harm = fn(&File, &File);
    let harms: [(&str, usize, Harm); 6] = [
        ("a byte of the part was turned", 1, |part, _| {
            let mut byte = [0];
            part.read_exact_at(&mut byte, BLOCK as u64 + 9).expect("reads");
            part.write_all_at(&[!byte[0]], BLOCK as u64 + 9).expect("writes");
        }),
        ("the part was cut", 2, |part, _| part.set_len(2 * BLOCK as u64 + 1).expect("cuts")),
        ("the part was lost", 0, |part, _| part.set_len(0).expect("cuts")),
        ("a sum was torn", 2, |_, journal| {
            journal.set_len(journal.metadata().expect("there").len() - 33).expect("cuts");
        }),
        ("the journal was lost", 0, |_, journal| journal.set_len(0).expect("cuts")),
        ("the journal's head was torn", 0, |_, journal| journal.write_all_at(&[0; 8], 0).expect("writes")),
    ];
    for (what, blocks, harm) in harms {
        let (folder, site) = site();
        let content = random(6 * BLOCK, 3);
        let wanted = wanted("f", &content, "k");
        take_some(&site, &wanted, &content, 4).await;
        let open = |ending| File::options().read(true).write(true).open(left(folder.path(), ending)).expect("opens");
        harm(&open(part::PART), &open(part::JOURNAL));
        assert_eq!(take_in(&site, &wanted, &content).await.expect(what), (blocks * BLOCK) as u64, "{what}");
        assert!(std::fs::read(folder.path().join("f")).expect("reads") == content, "{what}");
    }
}

#[tokio::test]
async fn another_version_begins_anew_and_removes_what_the_old_one_left() {
    let (folder, site) = site();
    let (old, new) = (random(3 * BLOCK, 4), random(3 * BLOCK, 5));
    take_some(&site, &wanted("f", &old, "old"), &old, 2).await;
    take_some(&site, &wanted("other", &old, "old"), &old, 2).await;
    // What was left by a process before this one.
    let site = LocalSite::open(folder.path()).expect("opens");
    assert_eq!(take_in(&site, &wanted("f", &new, "new"), &new).await.expect("arrives"), 0);
    assert!(std::fs::read(folder.path().join("f")).expect("reads") == new);
    let rest = names(folder.path());
    assert_eq!(rest.len(), 3, "the other file's part and journal stay: {rest:?}");
    assert_eq!(take_in(&site, &wanted("other", &old, "old"), &old).await.expect("arrives"), 2 * BLOCK as u64);
}

#[tokio::test]
async fn two_transfers_of_one_file_do_not_mix() {
    let (_folder, site) = site();
    let content = random(2 * BLOCK, 6);
    let first = site.begin(&wanted("f", &content, "k")).await.expect("begins");
    let second = site.begin(&wanted("f", &content, "k")).await.map(|_| ()).expect_err("locked");
    assert!(second.is_temporary(), "{second}");
    drop(first);
    take_in(&site, &wanted("f", &content, "k"), &content).await.expect("arrives");
}

#[tokio::test]
async fn what_somebody_else_put_there_meanwhile_is_not_replaced() {
    for bytes in [10, 2 * BLOCK] {
        let (folder, site) = site();
        let content = random(bytes, 7);
        let mut incoming = site.begin(&wanted("f", &content, "k")).await.expect("begins");
        feed(&mut *incoming, &content, usize::MAX).await;
        std::fs::write(folder.path().join("f"), "theirs").expect("writes");
        assert_eq!(incoming.finish().await.expect_err("refused").kind(), ErrorKind::PreconditionFailed);

        let replaces = site.look(&path("f")).await.expect("looks");
        let wanted = Wanted { replaces, ..wanted("f", &content, "k") };
        let mut incoming = site.begin(&wanted).await.expect("begins");
        feed(&mut *incoming, &content, usize::MAX).await;
        std::fs::write(folder.path().join("f"), "theirs again").expect("writes");
        assert_eq!(incoming.finish().await.expect_err("refused").kind(), ErrorKind::PreconditionFailed);
        assert_eq!(std::fs::read(folder.path().join("f")).expect("reads"), b"theirs again");

        let replaces = site.look(&path("f")).await.expect("looks");
        take_in(&site, &Wanted { replaces, ..wanted }, &content).await.expect("replaces what was listed");
        assert_eq!(names(folder.path()), ["f"]);
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("secret"), "s").expect("writes");
    let (folder, site) = site();
    symlink(outside.path(), folder.path().join("out")).expect("links");
    symlink(outside.path().join("secret"), folder.path().join("file")).expect("links");
    assert_eq!(site.look(&path("out/secret")).await.expect_err("a link").kind(), ErrorKind::WrongKind);
    assert!(site.list(&path("out"), None).await.is_err());
    assert!(site.make_folder(&path("out/new")).await.is_err());
    let content = random(2 * BLOCK, 8);
    for bytes in [3, 2 * BLOCK] {
        assert!(take_in(&site, &wanted("out/f", &content[..bytes], "k"), &content[..bytes]).await.is_err());
    }
    let link = site.look(&path("file")).await.expect("looks").expect("is there");
    assert!(matches!(link.kind, Kind::Link(_)));
    assert!(site.open(&path("file"), &link).await.is_err(), "a link is not opened");
    let replaces = Some(link);
    take_in(&site, &Wanted { replaces, ..wanted("file", b"mine", "k") }, b"mine").await.expect("replaces the link");
    assert_eq!(std::fs::read(outside.path().join("secret")).expect("reads"), b"s");
    assert_eq!(names(outside.path()), ["secret"]);
}

#[tokio::test]
async fn members_come_in_order_of_name_and_what_cannot_be_moved_is_told() {
    let (folder, site) = site();
    let mut expected: Vec<String> =
        (0..1_500).map(|n: u32| format!("{:.8}é", blake3::hash(&n.to_le_bytes()).to_hex())).collect();
    for name in &expected {
        std::fs::write(folder.path().join(name), "").expect("writes");
    }
    for bad in [&b"bad\xff"[..], b"line\nbreak"] {
        std::fs::write(folder.path().join(OsStr::from_bytes(bad)), "").expect("writes");
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("fifo"), Mode::RUSR).expect("makes");
    std::fs::write(folder.path().join(part::PartName::new(&NodeName::new("x").expect("x"), "k").part()), "")
        .expect("writes");
    expected.sort();
    let (mut found, mut refused, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let listed = site.list(&DrivePath::root(), after.as_ref()).await.expect("lists");
        after = listed.items.last().map(|item| item.name.clone());
        found.extend(listed.items.iter().map(|item| item.name.as_str().to_owned()));
        refused.extend(listed.refused);
        if !listed.more {
            break;
        }
    }
    assert_eq!(found, expected);
    let mut kinds: Vec<_> = refused.iter().map(|(name, error)| (name.as_str(), error.kind())).collect();
    kinds.sort_by_key(|(name, _)| *name);
    let (invalid, unsupported) = (ErrorKind::InvalidInput, ErrorKind::Unsupported);
    assert_eq!(kinds, [("bad\u{fffd}", invalid), ("fifo", unsupported), ("line\nbreak", invalid)]);
}

#[tokio::test]
async fn reading_notices_that_the_source_shrank_grew_or_was_replaced() {
    let (folder, site) = site();
    let at = folder.path().join("f");
    let harms: [fn(&std::path::Path); 3] = [
        |at| File::options().write(true).open(at).expect("opens").set_len(5).expect("cuts"),
        |at| std::fs::write(at, vec![1; 2 * BLOCK]).expect("writes"),
        |at| {
            std::fs::write(at.with_extension("new"), vec![1; BLOCK]).expect("writes");
            std::fs::rename(at.with_extension("new"), at).expect("renames");
        },
    ];
    for harm in harms {
        std::fs::write(&at, vec![1; BLOCK]).expect("writes");
        let item = site.look(&path("f")).await.expect("looks").expect("is there");
        let content = site.open(&path("f"), &item).await.expect("opens");
        assert_eq!(content.read(ByteRange { start: 0, end: 3 }).await.expect("reads"), [1; 3][..]);
        assert!(content.is_still().await.expect("looks"));
        harm(&at);
        assert!(!content.is_still().await.expect("looks"));
        let again = site.open(&path("f"), &item).await.map(|_| ()).expect_err("another version");
        assert_eq!(again.kind(), ErrorKind::PreconditionFailed);
    }
    std::fs::write(&at, vec![1; BLOCK]).expect("writes");
    let item = site.look(&path("f")).await.expect("looks").expect("is there");
    let content = site.open(&path("f"), &item).await.expect("opens");
    harms[0](&at);
    let short = content.read(ByteRange::whole(BLOCK as u64)).await.expect_err("short");
    assert_eq!(short.kind(), ErrorKind::PreconditionFailed);
}

#[tokio::test]
async fn holes_are_read_as_zeros_and_zeros_are_left_as_holes() {
    let (folder, site) = site();
    let from = File::create(folder.path().join("sparse")).expect("makes");
    from.set_len(1 << 30).expect("grows");
    from.write_all_at(b"x", 700 << 20).expect("writes");
    let item = site.look(&path("sparse")).await.expect("looks").expect("is there");
    let content = site.open(&path("sparse"), &item).await.expect("opens");
    let wanted = Wanted { size: item.size, ..wanted("copy", b"", "k") };
    let mut incoming = site.begin(&wanted).await.expect("begins");
    let mut at = 0;
    while at < item.size {
        let end = item.size.min(at + BLOCK as u64);
        incoming.write(content.read(ByteRange { start: at, end }).await.expect("reads")).await.expect("writes");
        at = end;
    }
    incoming.finish().await.expect("arrives");
    let copy = folder.path().join("copy").metadata().expect("is there");
    assert_eq!(copy.len(), 1 << 30);
    assert!(copy.blocks() * 512 <= 4 << 20, "{} bytes are taken", copy.blocks() * 512);
    let mut byte = [0];
    File::open(folder.path().join("copy")).expect("opens").read_exact_at(&mut byte, 700 << 20).expect("reads");
    assert_eq!(byte, *b"x");
}

#[tokio::test]
async fn removing_is_of_what_was_listed_and_takes_parts_with_a_folder() {
    let (folder, site) = site();
    std::fs::write(folder.path().join("f"), "1").expect("writes");
    let item = site.look(&path("f")).await.expect("looks").expect("is there");
    std::fs::write(folder.path().join("f"), "22").expect("writes");
    assert_eq!(site.remove(&path("f"), &item).await.expect_err("changed").kind(), ErrorKind::PreconditionFailed);
    let item = site.look(&path("f")).await.expect("looks").expect("is there");
    site.remove(&path("f"), &item).await.expect("removes");

    site.make_folder(&path("d")).await.expect("makes");
    site.make_folder(&path("d")).await.expect("is there already");
    let content = random(2 * BLOCK, 9);
    take_some(&site, &wanted("d/f", &content, "k"), &content, 1).await;
    let folder_item = site.look(&path("d")).await.expect("looks").expect("is there");
    site.remove(&path("d"), &folder_item).await.expect("nothing but a part is in it");
    site.settle().await.expect("settles");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[tokio::test]
async fn links_are_made_and_replaced_as_links() {
    let (folder, site) = site();
    site.make_link(&path("l"), "to/nowhere", None).await.expect("makes");
    assert_eq!(site.make_link(&path("l"), "x", None).await.expect_err("taken").kind(), ErrorKind::PreconditionFailed);
    let item = site.look(&path("l")).await.expect("looks").expect("is there");
    assert_eq!(item.kind, Kind::Link("to/nowhere".into()));
    site.make_link(&path("l"), "elsewhere", Some(&item)).await.expect("replaces");
    assert_eq!(std::fs::read_link(folder.path().join("l")).expect("reads"), std::path::Path::new("elsewhere"));
    assert_eq!(names(folder.path()), ["l"]);
    let stale = Item { version: Version("other".into()), ..item };
    assert!(site.make_link(&path("l"), "x", Some(&stale)).await.is_err());
}
