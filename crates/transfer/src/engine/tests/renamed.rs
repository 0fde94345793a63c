//! Files that arrive under other paths than they have.

use super::memory::{Memory, Node, path};
use super::*;
use crate::options::IfExists;
use crate::{Rename, What};
use std::sync::Arc;

fn file(bytes: &[u8]) -> Node {
    Node::File { bytes: bytes.to_vec(), modified_ns: 7 }
}

/// Everything goes to one folder: `a/b.txt` to `flat/a-b.txt`, or as `new` says.
fn renamed(new: impl Fn(&DrivePath) -> String + Send + Sync + 'static) -> Options {
    let rename = move |old: &DrivePath, _: &crate::Item| DrivePath::parse(&new(old));
    Options { rename: Some(Rename(Arc::new(rename))), ..Options::default() }
}

fn flat(old: &DrivePath) -> String {
    let names: Vec<&str> = old.names().iter().map(holdfast_base::NodeName::as_str).collect();
    format!("flat/{}", names.join("-"))
}

fn tree() -> Arc<Memory> {
    Memory::new([
        (path("a"), Node::Folder),
        (path("a/b"), Node::Folder),
        (path("a/b/x"), file(b"x")),
        (path("a/y"), file(b"y")),
        (path("empty"), Node::Folder),
        (path("z"), file(b"z")),
    ])
}

#[tokio::test]
async fn files_arrive_under_their_new_paths_and_only_the_folders_those_need_are_made() {
    let (source, destination) = (tree(), Memory::new([]));
    let (report, _) = moved(&source, &destination, renamed(flat)).await;
    assert_eq!(report.expect("moves").counts.files, 3);
    let names: Vec<String> = destination.tree().keys().map(ToString::to_string).collect();
    assert_eq!(names, ["/", "/flat", "/flat/a-b-x", "/flat/a-y", "/flat/z"]);
    let (again, _) = moved(&source, &destination, renamed(flat)).await;
    let again = again.expect("moves").counts;
    assert_eq!((again.same, again.files, again.folders), (3, 0, 0), "what is there is known by its new path");
}

#[tokio::test]
async fn of_two_files_for_one_place_the_first_has_it_and_the_second_fails() {
    let (source, destination) = (tree(), Memory::new([]));
    let (report, _) = moved(&source, &destination, renamed(|_| "one".into())).await;
    let report = report.expect("moves");
    assert_eq!((report.counts.files, report.counts.failed, report.counts.settled), (1, 2, 3));
    assert!(report.failures.iter().all(|failure| failure.kind == ErrorKind::AlreadyExists), "{:?}", report.failures);
    assert_eq!(destination.tree()[&path("one")], file(b"x"), "the first in order of the walk");
}

#[tokio::test]
async fn what_is_at_the_new_place_is_treated_as_anything_that_is_there() {
    let (source, destination) = (tree(), Memory::new([(path("flat"), Node::Folder), (path("flat/z"), file(b"old"))]));
    let options = Options { if_exists: IfExists::Skip, ..renamed(flat) };
    let (report, _) = moved(&source, &destination, options).await;
    assert_eq!(report.expect("moves").counts.skipped, 1);
    assert_eq!(destination.tree()[&path("flat/z")], file(b"old"));
}

#[tokio::test]
async fn a_name_that_cannot_be_fails_its_file_alone_and_a_dry_run_says_what_a_run_does() {
    let new =
        |old: &DrivePath| if old.name().is_some_and(|name| name.as_str() == "y") { "../y".into() } else { flat(old) };
    let (source, destination) = (tree(), Memory::new([]));
    let (_, would) = moved(&source, &destination, Options { dry_run: true, ..renamed(new) }).await;
    let (report, did) = moved(&source, &destination, renamed(new)).await;
    let report = report.expect("moves");
    assert_eq!((report.counts.files, report.counts.failed), (2, 1));
    assert_eq!(acts(&would), acts(&did));
    assert!(acts(&did).iter().any(|act| act.what == What::Folder));
}

#[tokio::test]
async fn renaming_and_removing_do_not_go_together() {
    let options = Options { delete: Delete::AfterSuccess, ..renamed(flat) };
    let (report, _) = moved(&tree(), &Memory::new([]), options).await;
    assert_eq!(report.expect_err("is refused").kind(), ErrorKind::InvalidInput);
}
