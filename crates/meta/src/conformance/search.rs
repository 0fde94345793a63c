//! Finding nodes.

use super::stage::{Stage, kind, path};
use crate::catalogue::Catalogue;
use crate::types::{HITS_MAX, MediaGroup, NodeKind, SearchQuery};
use holdfast_base::ErrorKind;
use std::sync::Arc;

type Place = Arc<dyn Catalogue>;

fn query(text: &str) -> SearchQuery {
    SearchQuery { text: text.to_owned(), limit: HITS_MAX, ..SearchQuery::default() }
}

pub async fn names_are_found_from_where_a_word_begins(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("Überblick").await;
    stage.write("Report2024Final.pdf", 1).await;
    stage.write("ELÈVES.txt", 1).await;
    stage.write("会议纪要.docx", 1).await;
    stage.write("---", 1).await;
    for (text, found) in [
        ("report", &["/Report2024Final.pdf"][..]),
        ("2024f", &["/Report2024Final.pdf"]),
        ("final.PDF", &["/Report2024Final.pdf"]),
        ("eport", &[]),
        ("uber", &["/Überblick"]),
        ("eleves", &["/ELÈVES.txt"]),
        ("纪要", &["/会议纪要.docx"]),
        ("---", &[]),
        ("report uber", &[]),
    ] {
        assert_eq!(stage.search_paths(text).await, found, "{text}");
    }
    let answer = stage.search("report").await;
    assert!(!answer.more && !answer.indexing && answer.next.is_none());
    assert_eq!(Some(&answer.hits[0].node), stage.node("Report2024Final.pdf").await.as_ref());
}

pub async fn every_word_is_on_the_path_and_one_in_the_name(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("projects").await;
    stage.folder("projects/bridge").await;
    stage.write("projects/bridge/plan.pdf", 1).await;
    stage.write("projects/bridge/photo.jpg", 1).await;
    stage.write("projects/plan.pdf", 1).await;
    assert_eq!(stage.search_paths("bridge plan").await, ["/projects/bridge/plan.pdf"]);
    assert_eq!(stage.search_paths("plan projects").await, ["/projects/plan.pdf", "/projects/bridge/plan.pdf"]);
    assert_eq!(stage.search_paths("projects").await, ["/projects"], "what is below has no word of its own");
    assert_eq!(stage.search_paths("projects bridge jpg").await, ["/projects/bridge/photo.jpg"]);
}

pub async fn what_changed_is_found_as_it_is(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("old").await;
    stage.write("old/letter.txt", 1).await;
    stage.index_all().await;
    stage.relocate("old", "new", false).await.expect("moves");
    assert_eq!(stage.search_paths("letter").await, ["/new/letter.txt"]);
    assert_eq!(stage.search_paths("old").await, Vec::<String>::new());
    assert_eq!(stage.search_paths("letter new").await, ["/new/letter.txt"]);
    stage.copy("new", "copy", false).await.expect("copies");
    assert_eq!(stage.search_paths("copy letter").await, ["/copy/letter.txt"]);
    stage.remove("new").await.expect("removes");
    assert_eq!(stage.search_paths("letter").await, ["/copy/letter.txt"]);
    let entry = catalogue.trash(stage.space, None, 1).await.expect("reads").remove(0).id;
    catalogue.restore_trash(stage.space, entry, Some(&path("back")), &stage.guard()).await.expect("puts back");
    assert_eq!(stage.search_paths("back letter").await, ["/back/letter.txt"]);
    assert_eq!(stage.search_paths("new").await, Vec::<String>::new());
    // What goes before it was ever indexed leaves nothing.
    stage.write("brief", 1).await;
    stage.remove("brief").await.expect("removes");
    stage.remove("back").await.expect("removes");
    stage.index_all().await;
    catalogue.purge_trash(stage.space, None).await.expect("purges");
    stage.release_all().await;
    assert_eq!(stage.search_paths("letter").await, ["/copy/letter.txt"]);
    assert!(!catalogue.words_wait().await.expect("reads"));
}

pub async fn better_hits_come_first(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("tax").await;
    for (at, age) in [("tax/tax.pdf", 1), ("tax/taxes older", 2), ("tax/taxes newer", 3), ("tax/income tax", 9)] {
        stage.try_write(at, 1, &stage.guard_at(age)).await.expect("writes");
    }
    stage.write("tax/tagged", 1).await;
    stage.tag("tax/tagged", &["tax"], &[]).await.expect("tags");
    let found = stage.search_paths("tax").await;
    let wanted = ["/tax", "/tax/tax.pdf", "/tax/taxes newer", "/tax/taxes older", "/tax/tagged", "/tax/income tax"];
    assert_eq!(found, wanted);
    let mut query = SearchQuery { limit: 2, ..query("tax") };
    let mut pages = Vec::new();
    loop {
        let answer = stage.find_all(&query).await;
        pages.extend(answer.hits.iter().map(|hit| hit.path.to_string()));
        assert_eq!(answer.more, answer.next.is_some());
        query.after = answer.next;
        if query.after.is_none() {
            break;
        }
        assert_eq!(answer.hits.len(), 2);
    }
    assert_eq!(pages, wanted);
}

pub async fn filters_let_through_what_they_say(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("photo album").await;
    for (at, size, ms) in [("photo 1.jpg", 100, 1_000), ("photo 2.JPG", 300, 2_000), ("photo notes.txt", 200, 3_000)] {
        stage.try_write(at, size, &stage.guard_at(ms)).await.expect("writes");
    }
    stage.tag("photo 2.JPG", &["Best", "of 2024"], &[]).await.expect("tags");
    let tag = |text: &str| crate::types::Tag::new(text).expect("a tag");
    let base = query("photo");
    for (query, found) in [
        (SearchQuery { kind: Some(NodeKind::Folder), ..base.clone() }, &["/photo album"][..]),
        (SearchQuery { group: Some(MediaGroup::Image), ..base.clone() }, &["/photo 2.JPG", "/photo 1.jpg"]),
        (SearchQuery { min_bytes: Some(200), ..base.clone() }, &["/photo notes.txt", "/photo 2.JPG"]),
        (SearchQuery { min_bytes: Some(101), max_bytes: Some(299), ..base.clone() }, &["/photo notes.txt"]),
        (
            SearchQuery { after_ms: Some(1_000), before_ms: Some(2_000), ..base.clone() },
            &["/photo album", "/photo 1.jpg"],
        ),
        (SearchQuery { tags: vec![tag("BEST")], ..base.clone() }, &["/photo 2.JPG"]),
        (SearchQuery { tags: vec![tag("best"), tag("of 2024")], ..query("") }, &["/photo 2.JPG"]),
        (SearchQuery { tags: vec![tag("best"), tag("none")], ..query("") }, &[]),
        (SearchQuery { tags: vec![tag("best")], ..query("notes") }, &[]),
        (SearchQuery { group: Some(MediaGroup::Text), ..query("") }, &["/photo notes.txt"]),
    ] {
        let answer = stage.find_all(&query).await;
        let mut paths: Vec<String> = answer.hits.iter().map(|hit| hit.path.to_string()).collect();
        if query.after_ms.is_some() {
            // The folder is as old as the clock of the stage says.
            paths.retain(|path| path != "/photo album");
            assert_eq!(paths, ["/photo 1.jpg"]);
            continue;
        }
        assert_eq!(paths, found, "{query:?}");
        assert!(!answer.more);
    }
    for text in ["", " ", "\u{301}"] {
        assert!(stage.find_all(&query(text)).await.hits.is_empty(), "nothing was asked for");
        assert!(stage.search(text).await.hits.is_empty(), "nothing was asked for, thoroughly");
    }
    let hit = stage.find_all(&SearchQuery { tags: vec![tag("best")], ..query("") }).await.hits.remove(0);
    assert_eq!(hit.tags, ["Best", "of 2024"]);
}

pub async fn only_the_spaces_asked_for_are_searched(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let (ben, home) = Stage::account(catalogue, "ben").await;
    let other = Stage { catalogue: Arc::clone(catalogue), account: ben, space: home.id };
    stage.write("secret of ana", 1).await;
    other.write("secret of ben", 1).await;
    stage.tag("secret of ana", &["private"], &[]).await.expect("tags");
    assert_eq!(stage.search_paths("secret").await, ["/secret of ana"]);
    assert_eq!(other.search_paths("secret").await, ["/secret of ben"]);
    let both = catalogue.search(&[stage.space.into(), other.space.into()], &query("secret")).await.expect("finds");
    assert_eq!(both.hits.iter().map(|hit| hit.node.space).collect::<Vec<_>>().len(), 2);
    assert!(catalogue.search(&[], &query("secret")).await.expect("finds nothing").hits.is_empty());
    assert!(catalogue.tags_in_use(&[other.space.into()], "", 9).await.expect("reads").is_empty());
}

pub async fn a_query_has_bounds(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    let refused = async |query: SearchQuery| kind(catalogue.search(&[stage.space.into()], &query).await);
    assert_eq!(refused(query(&"x".repeat(257))).await, ErrorKind::TooLarge);
    assert_eq!(refused(query("a b c d e f g h i")).await, ErrorKind::TooLarge);
    let long = format!("{}.txt", "long-".repeat(30));
    stage.write(&long, 1).await;
    assert_eq!(stage.search_paths(&"long-".repeat(30)).await, [format!("/{long}")], "longer than what is indexed");
    assert!(stage.search_paths(&"long-".repeat(31)).await.is_empty());
}

/// More names than one query looks at.
pub async fn a_word_that_is_everywhere_is_looked_for_up_to_a_bound(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("a").await;
    for number in 0..64 {
        stage.write(&format!("a/common {number}"), 1).await;
    }
    stage.copy("a", "rare", false).await.expect("copies");
    stage.folder("many").await;
    for number in 0..140 {
        stage.copy("a", &format!("many/{number}"), false).await.expect("copies");
    }
    assert!(stage.search("common").await.indexing, "so many are not indexed while somebody waits");
    stage.index_all().await;
    let answer = stage.search("common").await;
    assert!(answer.more && !answer.indexing && answer.hits.len() == HITS_MAX);
    let answer = stage.search("rare common").await;
    assert_eq!(
        (answer.hits.len(), answer.more),
        (64, false),
        "what is below the folder with the rare word is all there is"
    );
    assert!(stage.search("common 1").await.more);
    assert_eq!(stage.search_paths("rare").await, ["/rare"]);
    let texts = [("rare common", HITS_MAX), ("rare common", 17), ("rare 63", 1), ("common 1", HITS_MAX)];
    pages_have_all_and_nothing_twice(&stage, &texts).await;
}

/// Who pages is answered by a first look, and gets the rest after it.
async fn pages_have_all_and_nothing_twice(stage: &Stage, texts: &[(&str, usize)]) {
    for &(text, limit) in texts {
        let whole = stage.search(text).await;
        let pages = stage.search_pages(text, limit).await;
        let (last, others) = pages.split_last().expect("one page at least");
        assert!(
            last.len() <= limit && others.iter().all(|page| (1..=limit).contains(&page.len())),
            "{text}: {pages:?}"
        );
        let mut found: Vec<String> = pages.concat();
        let all = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), all, "{text}: something is there twice");
        let mut wanted: Vec<String> = whole.hits.iter().map(|hit| hit.path.to_string()).collect();
        wanted.sort();
        if whole.next.is_none() && !whole.more {
            assert_eq!(found, wanted, "{text}");
        } else {
            assert!(all >= wanted.len(), "{text}: {all}");
        }
    }
}

pub async fn a_file_is_found_by_its_folder_among_many_of_its_name(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    stage.folder("d2").await;
    for number in 0..800 {
        stage.write(&format!("d2/note {number}"), 1).await;
    }
    // More of each than are looked at one by one, in folders of both kinds.
    for number in 0..6 {
        stage.copy("d2", &format!("e{number}"), false).await.expect("copies");
        stage.folder(&format!("t{number}")).await;
        stage.copy("d2", &format!("t{number}/d2"), false).await.expect("copies");
    }
    stage.index_all().await;
    let found = stage.search_paths("d2 799").await;
    let mut wanted: Vec<String> = (0..6).map(|number| format!("/t{number}/d2/note 799")).collect();
    wanted.push("/d2/note 799".into());
    let sorted = |mut paths: Vec<String>| {
        paths.sort();
        paths
    };
    assert_eq!(sorted(found), sorted(wanted.clone()));
    // The same when a word of the file's own name is in all of them.
    let answer = stage.search("d2 note 799").await;
    let found = answer.hits.iter().map(|hit| hit.path.to_string()).collect();
    assert_eq!(sorted(found), sorted(wanted));
    pages_have_all_and_nothing_twice(&stage, &[("d2 799", 3), ("d2 note 799", HITS_MAX), ("t3 d2 799", 1)]).await;
}

pub async fn a_file_is_found_by_its_folder_however_large_both_are(catalogue: &Place) {
    let stage = Stage::new(catalogue).await;
    for (folder, name) in [("wanted0", "Note"), ("other0", "Zeta")] {
        stage.folder(folder).await;
        for number in 0..800 {
            stage.write(&format!("{folder}/{name} {number}"), 1).await;
        }
    }
    stage.write("wanted0/Zeta", 1).await;
    // More names with the second word than rows of the index are read, and more below the first than nodes.
    for (folder, copies) in [("wanted", 8), ("other", 24)] {
        for number in 1..copies {
            stage.copy(&format!("{folder}0"), &format!("{folder}{number}"), false).await.expect("copies");
        }
    }
    stage.index_all().await;
    let mut found = stage.search_paths("wanted zeta").await;
    found.sort();
    assert_eq!(found, (0..8).map(|number| format!("/wanted{number}/Zeta")).collect::<Vec<_>>());
    let pages = stage.search_pages("wanted zeta", HITS_MAX).await;
    assert_eq!(pages[0].len(), 8, "a first look is enough");
}
