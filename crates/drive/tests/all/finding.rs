//! Tags and search, for those who may.

use crate::common::{Rig, at, at_space, sign_up};
use holdfast_base::ErrorKind;
use holdfast_drive::care::{JobOptions, Jobs};
use holdfast_drive::{
    Conditions, Drive, FoundNodes, LockRequest, PropertyChange, SearchQuery, TAG_NAMESPACE, Tag, TagChange, Transfer,
};
use holdfast_meta::{Catalogue, Expect, Role};
use std::time::Duration;

fn words(text: &str) -> SearchQuery {
    SearchQuery { text: text.to_owned(), limit: 50, ..SearchQuery::default() }
}

fn add(tag: &str) -> TagChange {
    TagChange { add: vec![Tag::new(tag).expect("a tag")], remove: Vec::new() }
}

fn places(found: &FoundNodes) -> Vec<String> {
    found.found.iter().map(|hit| hit.at.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_what_it_may_see_and_tags_what_it_may_change() {
    let mut rig = Rig::new().await;
    let mut ben = sign_up(&rig.accounts, "ben").await;
    rig.put("letter to ben", b"x").await.expect("writes");
    assert_eq!(
        places(&rig.engine.search(&rig.ana, None, &words("letter")).await.expect("finds")),
        ["/ana/letter to ben"]
    );
    assert!(rig.engine.search(&ben, None, &words("letter")).await.expect("finds nothing").found.is_empty());
    let refused = rig.engine.search(&ben, Some("ana"), &words("letter")).await.expect_err("refuses");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let items = [at("letter to ben"), at("nothing")];
    let kinds = |answers: Vec<holdfast_base::Result<holdfast_drive::Node>>| -> Vec<Option<ErrorKind>> {
        answers.into_iter().map(|answer| answer.err().map(|error| error.kind())).collect()
    };
    let tagged = rig.engine.change_tags(&rig.ana, &items, &add("Mail")).await.expect("answers");
    assert_eq!(kinds(tagged), [None, Some(ErrorKind::NotFound)]);
    let refused = rig.engine.change_tags(&ben, &items, &add("Mine")).await.expect("answers");
    assert_eq!(kinds(refused), [Some(ErrorKind::NotFound); 2]);

    let space = rig.engine.space(&rig.ana, "ana").await.expect("sees it").root.space;
    rig.catalogue.put_member(space, ben.account, Role::Reader, vec![0; 80]).await.expect("becomes a member");
    assert_eq!(places(&rig.engine.search(&ben, None, &words("mail")).await.expect("finds")), ["/ana/letter to ben"]);
    assert_eq!(rig.engine.tags_in_use(&ben, None, "m", 9).await.expect("reads").len(), 1);
    let refused = rig.engine.change_tags(&ben, &items[..1], &add("Mine")).await.expect("answers");
    assert_eq!(kinds(refused), [Some(ErrorKind::Forbidden)]);
    ben.scope.space = Some(rig.engine.space(&ben, "ben").await.expect("its home").root.space);
    assert!(rig.engine.search(&ben, None, &words("mail")).await.expect("finds nothing").found.is_empty());
    rig.ana.scope.read_only = true;
    let refused = rig.engine.change_tags(&rig.ana, &items[..1], &add("Mine")).await.expect("answers");
    assert_eq!(kinds(refused), [Some(ErrorKind::Forbidden)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_no_properties_and_are_copied_between_spaces() {
    let rig = Rig::new().await;
    rig.put("file", b"x").await.expect("writes");
    rig.engine.change_tags(&rig.ana, &[at("file")], &add("Über")).await.expect("answers").remove(0).expect("tags");
    let node = rig.engine.walk(&rig.ana, &at("file")).await.expect("walks").node().cloned().expect("is there");
    let nodes = [node];
    assert_eq!(rig.engine.tags(&rig.ana, &nodes).await.expect("reads"), [["Über"]]);
    assert_eq!(rig.engine.properties(&rig.ana, &nodes).await.expect("reads"), [[]]);
    let raw = [PropertyChange::Remove { namespace: TAG_NAMESPACE.into(), name: "uber".into() }];
    let refused = rig.engine.change_properties(&rig.ana, &at("file"), &raw, Conditions::default()).await;
    assert_eq!(refused.expect_err("refuses").kind(), ErrorKind::Forbidden);

    rig.accounts.create_space(&rig.ana, "group", None).await.expect("makes a space");
    let transfer = Transfer {
        from: at("file"),
        to: at_space("group", "copy"),
        copy: true,
        overwrite: false,
        deep: true,
        source_expect: Expect::Any,
        tags: Vec::new(),
    };
    rig.engine.relocate(&rig.ana, &transfer, Conditions::default()).await.expect("copies");
    let query = SearchQuery { tags: vec![Tag::new("uber").expect("a tag")], ..words("") };
    let found = rig.engine.search(&rig.ana, Some("group"), &query).await.expect("finds");
    assert_eq!((places(&found), found.found[0].tags.clone()), (vec!["/group/copy".into()], vec!["Über".into()]));
    rig.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_not_tagged() {
    let rig = Rig::new().await;
    rig.put("file", b"x").await.expect("writes");
    let request = LockRequest { exclusive: true, deep: false, owner_xml: String::new(), seconds: 60 };
    rig.engine.lock(&rig.ana, &at("file"), request, Conditions::default()).await.expect("locks");
    let refused = rig.engine.change_tags(&rig.ana, &[at("file")], &add("x")).await.expect("answers").remove(0);
    assert_eq!(refused.expect_err("refuses").kind(), ErrorKind::Locked);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_indexed_by_a_job() {
    let rig = Rig::new().await;
    for number in 0..5 {
        rig.put(&format!("file {number}"), b"x").await.expect("writes");
    }
    assert!(rig.catalogue.words_wait().await.expect("reads"));
    let options = JobOptions { index_every: Duration::from_millis(1), ..JobOptions::default() };
    let _jobs = Jobs::start(rig.engine.clone(), options);
    while rig.catalogue.words_wait().await.expect("reads") {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.engine.search(&rig.ana, None, &words("file")).await.expect("finds").found.len(), 5);
}
