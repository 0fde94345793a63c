//! What a dry run says is what a run does, and what is there afterwards is what was asked for.

use super::memory::{Memory, Node, path};
use super::*;
use crate::filter::{Bounds, Patterns};
use crate::options::{Compare, IfExists, Links};
use crate::{Filter, What};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Tree = BTreeMap<DrivePath, Node>;

fn nodes() -> impl Strategy<Value = Tree> {
    let node = prop_oneof![
        3 => (0u8..3, 0usize..3, 1i64..4).prop_map(|(byte, length, time)| Node::File {
            bytes: vec![byte; length * 40],
            modified_ns: time * 1_000_000_000 + 1,
        }),
        1 => Just(Node::Folder),
        1 => "[ab]".prop_map(Node::Link),
    ];
    prop::collection::vec(("[abc](/[abc]){0,2}", node), 0..12).prop_map(|places| {
        let mut tree = Tree::new();
        for (place, node) in places {
            let place = path(&place);
            let names = place.names();
            let above = (1..names.len()).map(|depth| DrivePath::from_names(names[..depth].to_vec()).expect("short"));
            let above: Vec<DrivePath> = above.collect();
            if above.iter().all(|above| tree.get(above).is_none_or(|node| *node == Node::Folder))
                && !tree.contains_key(&place)
            {
                tree.extend(above.into_iter().map(|above| (above, Node::Folder)));
                tree.insert(place, node);
            }
        }
        tree
    })
}

fn options() -> impl Strategy<Value = Options> {
    let policy = prop::sample::select(vec![IfExists::Replace, IfExists::Skip, IfExists::KeepBoth, IfExists::Fail]);
    let pattern = prop::collection::vec("[abc*]{1,2}/?", 0..2);
    let bounds = (prop::option::of(0u64..80), prop::option::of(0u64..80));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0..3u8);
    (policy, pattern.clone(), pattern, bounds, flags).prop_map(
        |(if_exists, include, exclude, (min_size, max_size), flags)| {
            let (update, by_content, skip_links, delete_source, delete) = flags;
            let patterns = |globs| Patterns { globs, expressions: Vec::new() };
            let filter =
                Filter::new(&patterns(include), &patterns(exclude), Bounds { min_size, max_size, ..Bounds::default() })
                    .expect("compiles");
            let delete = [Delete::No, Delete::AfterSuccess, Delete::Anyway][usize::from(delete)];
            // No run may have both.
            let unlike = if_exists == IfExists::KeepBoth && delete != Delete::No;
            let if_exists = if unlike { IfExists::Replace } else { if_exists };
            Options {
                compare: if by_content { Compare::Content } else { Compare::SizeAndTime },
                if_exists,
                update,
                links: if skip_links { Links::Skip } else { Links::Copy },
                delete,
                delete_if_empty: true,
                // No command has both.
                delete_source: delete_source && delete == Delete::No,
                filter,
                small_files: 1,
                ..Options::default()
            }
        },
    )
}

fn run_paused<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

fn both(source: &Tree, there: &Tree) -> (Arc<Memory>, Arc<Memory>) {
    (Memory::new(source.clone()), Memory::new(there.clone()))
}

proptest! {
    #[test]
    fn a_dry_run_says_exactly_what_a_run_does(source in nodes(), there in nodes(), options in options()) {
        run_paused(async {
            let (a, b) = both(&source, &there);
            let dry = Options { dry_run: true, ..options.clone() };
            let (planned, events) = moved(&a, &b, dry).await;
            prop_assert_eq!((a.tree(), b.tree()), (Memory::new(source.clone()).tree(), Memory::new(there.clone()).tree()));
            let planned = planned.expect("plans");
            let plan = acts(&events);
            let (done, events) = moved(&a, &b, options.clone()).await;
            let done = done.expect("moves");
            prop_assert_eq!(&plan, &acts(&events), "{:?}", events);
            prop_assert_eq!(planned.counts.failed, done.counts.failed);
            prop_assert_eq!(planned.kept.is_some(), done.kept.is_some());
            Ok(())
        })?;
    }

    #[test]
    fn sync_with_delete_makes_both_the_same(source in nodes(), there in nodes()) {
        run_paused(async {
            let (a, b) = both(&source, &there);
            let options = Options { delete: Delete::AfterSuccess, delete_if_empty: true, compare: Compare::Content, ..Options::default() };
            let (report, _) = moved(&a, &b, options.clone()).await;
            prop_assert_eq!(report.expect("moves").counts.failed, 0);
            let contents = |tree: Tree| -> BTreeMap<DrivePath, Node> {
                tree.into_iter().map(|(path, node)| (path, match node {
                    Node::File { bytes, .. } => Node::File { bytes, modified_ns: 0 },
                    other => other,
                })).collect()
            };
            prop_assert_eq!(contents(a.tree()), contents(b.tree()));
            let (again, events) = moved(&a, &b, options).await;
            prop_assert!(acts(&events).is_empty(), "the second time there is nothing to do: {:?}", events);
            prop_assert_eq!(again.expect("looks").counts.moved_bytes, 0);
            Ok(())
        })?;
    }

    #[test]
    fn whatever_the_options_what_is_hidden_or_unlike_stays(source in nodes(), there in nodes(), options in options()) {
        run_paused(async {
            let (a, b) = both(&source, &there);
            let (report, events) = moved(&a, &b, options.clone()).await;
            report.expect("moves");
            let acts = acts(&events);
            for (place, node) in &there {
                let hidden = match node {
                    Node::Folder => false,
                    Node::File { .. } | Node::Link(_) => {
                        let item = Handle(Memory::new(there.clone())).look(place).await.expect("looks").expect("is there");
                        !options.filter.takes(place, &item)
                    }
                };
                let touched = acts.iter().any(|act| act.path == *place && !matches!(act.what, What::Folder | What::DeleteSource));
                if hidden && !source.contains_key(place) {
                    prop_assert_eq!(b.tree().get(place).cloned(), Some(node.clone()), "{} is hidden", place);
                }
                if !touched && *node != Node::Folder {
                    prop_assert_eq!(b.tree().get(place).cloned(), Some(node.clone()), "{} was not told of", place);
                }
            }
            Ok(())
        })?;
    }
}
