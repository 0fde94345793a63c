//! Saved searches.

use super::stage::{Stage, kind, path};
use crate::catalogue::Catalogue;
use crate::types::{
    MediaGroup, NewSearch, NodeKind, SEARCHES_MAX, SavedSearch, SearchChange, SearchQuery, Tag, WhichSearch,
};
use holdfast_base::{AccountId, ErrorKind, NodeId, NodeName};
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

fn words(text: &str) -> SearchQuery {
    SearchQuery { text: text.to_owned(), ..SearchQuery::default() }
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a good name")
}

fn new(account: AccountId, called: &str) -> NewSearch {
    NewSearch { account, name: name(called), space: None, query: words("invoice"), folder: None, now_ms: 7 }
}

async fn names(stage: &Stage) -> Vec<String> {
    let all = stage.catalogue.saved_searches(stage.account.id).await.expect("reads");
    all.into_iter().map(|saved| saved.name.as_str().to_owned()).collect()
}

pub async fn a_search_is_saved_and_read_back(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let query = SearchQuery {
        text: "Été 2024".to_owned(),
        kind: Some(NodeKind::File),
        group: Some(MediaGroup::Pdf),
        min_bytes: Some(1),
        max_bytes: Some(u64::from(u32::MAX) + 1),
        after_ms: Some(-5),
        before_ms: Some(9),
        within_days: Some(7),
        tags: vec![Tag::new("To Do").expect("a tag"), Tag::new("Été").expect("a tag")],
        ..SearchQuery::default()
    };
    let wanted =
        NewSearch {
            space: Some("trip (bo)".to_owned()), query: query.clone(), ..new(stage.account.id, "Bills, été")
        };
    let saved = catalogue.save_search(wanted).await.expect("saves");
    let expected = SavedSearch {
        id: saved.id,
        account: stage.account.id,
        name: name("Bills, été"),
        space: Some("trip (bo)".to_owned()),
        query,
        folder: None,
        place: None,
        created_ms: 7,
        changed_ms: 7,
    };
    assert_eq!(saved, expected);
    for which in [WhichSearch::Id(saved.id), WhichSearch::Name("Bills, été".to_owned())] {
        let found = catalogue.saved_search(stage.account.id, &which).await.expect("reads");
        assert_eq!(found.as_ref(), Some(&expected), "{which:?}");
    }
    let change = SearchChange { query: Some((None, words("b"))), now_ms: 8, ..SearchChange::default() };
    let changed = catalogue.change_search(stage.account.id, saved.id, change).await.expect("changes");
    let expected = SavedSearch { space: None, query: words("b"), changed_ms: 8, ..expected };
    assert_eq!(changed, expected, "a query is changed as a whole");
    catalogue.remove_search(stage.account.id, saved.id).await.expect("removes");
    assert_eq!(kind(catalogue.remove_search(stage.account.id, saved.id).await), ErrorKind::NotFound);
    assert!(names(&stage).await.is_empty());
}

pub async fn names_are_of_one_account_and_free(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    let one = catalogue.save_search(new(stage.account.id, "one")).await.expect("saves").id;
    let two = catalogue.save_search(new(stage.account.id, "two")).await.expect("saves").id;
    let theirs = catalogue.save_search(new(bo.id, "one")).await.expect("another account's").id;
    assert_eq!(kind(catalogue.save_search(new(stage.account.id, "one")).await), ErrorKind::AlreadyExists);
    let rename = |to: &str| SearchChange { name: Some(name(to)), now_ms: 8, ..SearchChange::default() };
    let account = stage.account.id;
    assert_eq!(kind(catalogue.change_search(account, two, rename("one")).await), ErrorKind::AlreadyExists);
    let same = catalogue.saved_search(account, &WhichSearch::Id(two)).await.expect("reads").expect("is there");
    assert_eq!((same.name.as_str(), same.changed_ms), ("two", 7), "a refusal changes nothing");
    catalogue.change_search(account, one, rename("one")).await.expect("its own name is free to it");
    catalogue.change_search(account, one, rename("One")).await.expect("names are compared exactly");
    assert_eq!(names(&stage).await, ["One", "two"]);
    for id in [theirs, 0, -1] {
        assert_eq!(kind(catalogue.change_search(account, id, rename("x")).await), ErrorKind::NotFound);
        assert_eq!(kind(catalogue.remove_search(account, id).await), ErrorKind::NotFound);
        assert!(catalogue.saved_search(account, &WhichSearch::Id(id)).await.expect("reads").is_none());
    }
}

pub async fn what_finds_nothing_is_not_saved(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let saved = catalogue.save_search(new(stage.account.id, "good")).await.expect("saves");
    let long = SearchQuery { text: "x".repeat(257), ..SearchQuery::default() };
    for (query, space, refused) in [
        (words(""), None, ErrorKind::InvalidInput),
        (words("  "), None, ErrorKind::InvalidInput),
        (words("\u{301}"), None, ErrorKind::InvalidInput),
        (long, None, ErrorKind::TooLarge),
        (words("a b c d e f g h i"), None, ErrorKind::TooLarge),
        (words("a"), Some(String::new()), ErrorKind::InvalidInput),
        (words("a"), Some("x".repeat(256)), ErrorKind::InvalidInput),
    ] {
        let wanted = NewSearch { query: query.clone(), space: space.clone(), ..new(stage.account.id, "bad") };
        assert_eq!(kind(catalogue.save_search(wanted).await), refused, "{query:?}");
        let change = SearchChange { query: Some((space, query)), now_ms: 8, ..SearchChange::default() };
        assert_eq!(kind(catalogue.change_search(stage.account.id, saved.id, change).await), refused);
    }
    assert_eq!(names(&stage).await, ["good"]);
}

pub async fn an_account_saves_so_many(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for number in 0..SEARCHES_MAX {
        catalogue.save_search(new(stage.account.id, &format!("{number}"))).await.expect("saves");
    }
    assert_eq!(kind(catalogue.save_search(new(stage.account.id, "more")).await), ErrorKind::Conflict);
    assert_eq!(names(&stage).await.len(), SEARCHES_MAX);
    let (bo, _) = Stage::account(catalogue, "bo").await;
    catalogue.save_search(new(bo.id, "more")).await.expect("another account's");
}

pub async fn its_folder_is_followed(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    let folder = stage.folder("a/in").await.id;
    let wanted = NewSearch { folder: Some(folder), ..new(stage.account.id, "s") };
    let saved = catalogue.save_search(wanted).await.expect("saves");
    let place = async || {
        let which = WhichSearch::Id(saved.id);
        catalogue.saved_search(stage.account.id, &which).await.expect("reads").expect("is there").place
    };
    assert_eq!(place().await, Some((stage.space, path("a/in"))));
    stage.relocate("a", "b", false).await.expect("moves");
    assert_eq!(place().await, Some((stage.space, path("b/in"))));
    stage.remove("b/in").await.expect("removes");
    assert_eq!(place().await, None, "in the trash it leads nowhere");
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    stage.release_all().await;
    assert_eq!(place().await, None);
    let root = stage.node("").await.expect("the root").id;
    for (to, seen) in [(Some(root), Some((stage.space, path("")))), (Some(NodeId(0)), None), (None, None)] {
        let change = SearchChange { folder: Some(to), now_ms: 8, ..SearchChange::default() };
        let changed = catalogue.change_search(stage.account.id, saved.id, change).await.expect("changes");
        assert_eq!((changed.folder, changed.place), (to, seen));
    }
}

pub async fn saved_searches_end_with_their_account(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (bo, _) = Stage::account(catalogue, "bo").await;
    catalogue.save_search(new(bo.id, "s")).await.expect("saves");
    catalogue.save_search(new(stage.account.id, "s")).await.expect("saves");
    catalogue.remove_account(bo.id, 9).await.expect("removes");
    assert!(catalogue.saved_searches(bo.id).await.expect("reads").is_empty());
    assert_eq!(names(&stage).await, ["s"]);
}
