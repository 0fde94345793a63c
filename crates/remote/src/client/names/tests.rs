use super::sure::IDLE;
use super::*;
use holdfast_base::SpaceId;
use holdfast_drive::{Node, NodeKind};

fn entry(id: i64) -> Entry {
    let node = Node {
        id: NodeId(id),
        space: SpaceId(1),
        parent: Some(NodeId(1)),
        name: "a".into(),
        kind: NodeKind::File,
        content: None,
        size: 0,
        seq: 1,
        created_ms: 0,
        modified_ms: 0,
        has_properties: false,
    };
    Entry::new(node, None)
}

fn names() -> Names {
    Names::new(Arc::new(Voice::new()))
}

/// The stream of changes is there, and the server has taken this mount's word.
fn believe(names: &Names) {
    names.trust(true);
    names.end_word(Some(Until::after(Duration::from_mins(1))));
}

fn named(id: i64, name: &str) -> Entry {
    let mut entry = entry(id);
    name.clone_into(&mut entry.node.name);
    entry
}

fn about(id: i64, name: &NodeName) -> Vec<About> {
    vec![About::Name(NodeId(1), name.clone()), About::Entry(NodeId(id))]
}

#[test]
fn nothing_is_believed_without_the_stream_of_changes() {
    let names = names();
    let name = NodeName::new("a").expect("name");
    names.learn_name(names.mark(), NodeId(1), &name, Some(&entry(7)));
    assert_eq!(names.lookup(NodeId(1), &name), Member::Unknown);
    believe(&names);
    names.learn_name(names.mark(), NodeId(1), &name, Some(&entry(7)));
    assert_eq!(names.lookup(NodeId(1), &name), Member::Is(entry(7)));
    assert_eq!(names.entry(NodeId(7)), Some(entry(7)));
    names.trust(false);
    assert_eq!((names.lookup(NodeId(1), &name), names.entry(NodeId(7))), (Member::Unknown, None));
    assert_eq!(names.lookup_before(NodeId(1), &name), Member::Is(entry(7)), "what was known last");
    assert_eq!(names.entry_before(NodeId(7)), Some(entry(7)));
    believe(&names);
    names.remember(&entry(8));
    assert_eq!(names.lookup(NodeId(1), &name), Member::Unknown, "asked for again while the server is there");
    assert_eq!(names.lookup_before(NodeId(1), &name), Member::Is(entry(8)));
    names.forget_name(NodeId(1), &name);
    assert_eq!(names.lookup_before(NodeId(1), &name), Member::Unknown, "this mount changed it");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_believed_for_sure_while_the_server_takes_this_mounts_word() {
    const WHILE: Duration = Duration::from_secs(3);
    let (names, free) = (names(), NodeName::new("free").expect("name"));
    let learn = || {
        names.learn(names.mark(), &entry(7));
        names.learn_name(names.mark(), NodeId(1), &free, None);
    };
    // An entry, that a name is free, and that no open need ask.
    let known = || {
        let is_free = names.lookup(NodeId(1), &free) == Member::IsNone;
        (names.entry(NodeId(7)).is_some(), is_free, !names.is_loose())
    };
    let (nothing, loosely, surely) = ((false, false, true), (true, false, false), (true, true, true));
    assert_eq!(names.begin_word(), Say::Nothing, "there is no stream of changes, and nothing is heard");
    names.trust(true);
    learn();
    assert_eq!((known(), names.begin_word()), (loosely, Say::Heard(false)), "it has not taken any yet");
    assert!(names.end_word(Some(Until::after(WHILE))), "the first one");
    assert_eq!(known(), nothing, "it waits for nobody because of what it answered before");
    learn();
    assert_eq!(known(), surely);
    names.forget();
    assert_eq!(names.begin_word(), Say::Heard(false), "what it did itself");
    assert!(!names.end_word(None), "it was not taken");
    learn();
    names.hear(None);
    assert_eq!((known(), names.begin_word()), (nothing, Say::Heard(true)));
    assert_eq!(names.begin_word(), Say::Heard(false), "the last was not answered: what it did there is not known");
    learn();
    assert!(!names.end_word(Some(Until::after(WHILE))) && known() == surely);
    tokio::time::advance(WHILE).await;
    assert_eq!(known(), loosely);
    assert!(names.end_word(Some(Until::after(WHILE))), "after a while");
    assert_eq!(known(), nothing, "what was known before that is not believed for sure");
    learn();
    tokio::time::advance(IDLE).await;
    assert!(names.end_word(Some(Until::after(WHILE))), "another while");
    learn();
    tokio::time::advance(IDLE).await;
    assert_eq!((names.begin_word(), names.begin_word()), (Say::Forgot, Say::Nothing), "nobody has asked for long");
    assert_eq!((known(), names.begin_word()), (loosely, Say::Heard(false)), "somebody does");
    assert!(names.is_not_asked() && !names.is_not_asked());
    assert_eq!((known(), names.begin_word()), (loosely, Say::Nothing));
    names.answers_first();
    assert_eq!(known(), (true, true, false), "making files waits for nobody");
    names.trust(true);
    assert_eq!(names.begin_word(), Say::Heard(false), "the next server may be another");
}

#[test]
fn an_answer_from_before_a_change_is_not_put_back() {
    let names = names();
    believe(&names);
    let name = NodeName::new("a").expect("name");
    let before = names.mark();
    names.forget();
    names.learn(before, &entry(7));
    names.learn_name(before, NodeId(1), &name, None);
    assert_eq!((names.entry(NodeId(7)), names.lookup(NodeId(1), &name)), (None, Member::Unknown));
    names.learn_name(names.mark(), NodeId(1), &name, None);
    assert_eq!(names.lookup(NodeId(1), &name), Member::IsNone, "that there is none is known, too");
}

#[test]
fn what_others_change_in_a_folder_is_forgotten_of_that_folder_alone() {
    let names = names();
    believe(&names);
    let (a, none) = (NodeName::new("a").expect("name"), NodeName::new("none").expect("name"));
    let within = |id: i64, folder: i64, kind| {
        let mut entry = entry(id);
        (entry.node.parent, entry.node.kind) = (Some(NodeId(folder)), kind);
        entry
    };
    let (one, other, folder) = (entry(7), within(8, 2, NodeKind::File), within(2, 1, NodeKind::Folder));
    let learn = |mark: Mark| {
        names.learn_page(mark, NodeId(1), None, std::slice::from_ref(&one), true);
        names.learn_page(mark, NodeId(2), None, std::slice::from_ref(&other), true);
        names.learn(mark, &folder);
    };
    // A file of each folder, that there is no other, and the second folder itself, which is in the first.
    let known = || {
        let is_known = |id| names.entry(NodeId(id)).is_some();
        let whole = |folder| names.lookup(NodeId(folder), &none) == Member::IsNone;
        [is_known(7), whole(1), is_known(8), whole(2), is_known(2)]
    };
    let before = names.mark();
    learn(before);
    assert_eq!(known(), [true; 5]);
    let unchanged = names.unchanged();
    names.hear(Some(&[NodeId(2)]));
    assert_eq!(known(), [true, true, false, false, false], "a folder changes with its members");
    assert_ne!(names.unchanged(), unchanged, "and whoever believes what was shown is told");
    learn(before);
    assert_eq!(known(), [true, true, false, false, false], "what was asked before says nothing of it");
    assert_eq!(names.begin_word(), Say::Heard(false), "there is more that is known");
    learn(names.mark());
    names.hear(Some(&[NodeId(1)]));
    assert_eq!(known(), [false, false, true, true, false]);
    assert_eq!(names.list_before(NodeId(1), None, 9), Some(vec![one.clone()]), "for when the server is away");
    // What comes late of a folder that is known whole is one of its members.
    let late = names.mark();
    names.hear(Some(&[NodeId(3)]));
    learn(names.mark());
    names.learn_name(late, NodeId(1), &a, Some(&one));
    assert_eq!((known(), names.list_before(NodeId(1), None, 9)), ([true; 5], Some(vec![one.clone()])));
    // One's own change in a folder that others changed something in meanwhile is asked for, in another one it is known.
    let changes = [names.begin(about(7, &a)), names.begin(vec![About::Entry(NodeId(8))])];
    names.hear(Some(&[NodeId(1)]));
    let [here, there] = changes;
    here.settle(std::slice::from_ref(&one), &[]);
    there.settle(std::slice::from_ref(&other), &[]);
    assert_eq!(known(), [false, false, true, true, false]);
    // So many that they are not counted.
    learn(names.mark());
    assert!(!names.end_word(Some(Until::after(Duration::from_mins(1)))));
    let many: Vec<NodeId> = (100..).take(CHANGED_MAX).map(NodeId).collect();
    names.hear(Some(&many));
    assert_eq!((known(), names.begin_word()), ([false; 5], Say::Heard(true)), "nothing is known");
}

#[test]
fn however_many_names_are_asked_for_memory_has_its_bound() {
    let names = names();
    believe(&names);
    let mark = names.mark();
    for number in 0..(3 * KNOWN_MAX) {
        let name = NodeName::new(&format!("n{number}")).expect("name");
        names.learn_name(mark, NodeId(1), &name, None);
        names.learn(mark, &entry(i64::try_from(number).expect("fits")));
    }
    let known = names.known.lock();
    assert!(known.entries.len() <= KNOWN_MAX && known.members.len() <= KNOWN_MAX);
}

#[test]
fn what_this_mount_makes_it_knows_and_questions_of_before_change_nothing() {
    let names = names();
    believe(&names);
    let (a, b) = (NodeName::new("a").expect("name"), NodeName::new("b").expect("name"));
    let asked = names.mark();
    let changing = names.begin(about(7, &a));
    let meanwhile = names.mark();
    names.learn_name(meanwhile, NodeId(1), &a, None);
    assert_eq!(names.lookup(NodeId(1), &a), Member::IsNone, "until it is answered");
    changing.settle(&[entry(7)], &[]);
    for mark in [asked, meanwhile] {
        names.learn_name(mark, NodeId(1), &a, None);
        let mut old = entry(7);
        old.node.size = 99;
        names.learn(mark, &old);
    }
    assert_eq!(names.lookup(NodeId(1), &a), Member::Is(entry(7)));
    // Of two at the same time, nobody knows which came first.
    let (one, two) = (names.begin(about(8, &b)), names.begin(about(8, &b)));
    one.settle(&[named(8, "b")], &[]);
    assert_eq!(names.lookup(NodeId(1), &b), Member::Unknown);
    two.settle(&[named(8, "b")], &[]);
    assert_eq!(names.lookup(NodeId(1), &b), Member::Unknown);
    assert_eq!(
        names.lookup_before(NodeId(1), &b),
        Member::Is(named(8, "b")),
        "but it is there while the server is away"
    );
    // One that others changed something beside is asked for.
    let changing = names.begin(about(8, &b));
    names.forget();
    changing.settle(&[named(8, "b")], &[]);
    assert_eq!(names.lookup(NodeId(1), &b), Member::Unknown);
}

#[test]
fn a_change_whose_end_is_not_known_is_somebody_else_s_from_then_on() {
    let names = names();
    believe(&names);
    let (a, voice) = (NodeName::new("a").expect("name"), names.voice.now());
    names.learn_name(names.mark(), NodeId(1), &a, None);
    drop(names.begin(about(7, &a)));
    assert_ne!(names.voice.now(), voice);
    assert_eq!(names.lookup(NodeId(1), &a), Member::Unknown);
}

#[test]
fn of_a_folder_that_is_known_whole_others_are_known_not_to_be_there() {
    let names = names();
    believe(&names);
    let name = |text: &str| NodeName::new(text).expect("name");
    let (mark, x) = (names.mark(), name("x"));
    names.learn_page(mark, NodeId(1), None, &[named(2, "a"), named(3, "b")], false);
    assert_eq!(names.lookup(NodeId(1), &x), Member::Unknown, "there are more pages");
    names.learn_page(names.mark(), NodeId(1), Some(&name("c")), &[named(4, "d")], true);
    assert_eq!(names.lookup(NodeId(1), &x), Member::Unknown, "of another listing");
    names.learn_page(mark, NodeId(1), None, &[named(2, "a"), named(3, "b")], false);
    names.learn_page(names.mark(), NodeId(1), Some(&name("b")), &[named(4, "d")], true);
    assert_eq!(names.lookup(NodeId(1), &x), Member::IsNone);
    assert_eq!(names.lookup(NodeId(1), &name("d")), Member::Is(named(4, "d")));
    // What this mount makes in it is there, and it is still known whole.
    let changing = names.begin(about(9, &x));
    changing.settle(&[named(9, "x")], &[]);
    assert_eq!(names.lookup(NodeId(1), &x), Member::Is(named(9, "x")));
    assert_eq!(names.lookup(NodeId(1), &name("y")), Member::IsNone);
    // What others change is asked for, and shown as it was while the server is away.
    names.forget();
    assert_eq!(names.lookup(NodeId(1), &name("y")), Member::Unknown);
    assert_eq!(names.lookup_before(NodeId(1), &name("y")), Member::IsNone);
    // A listing in which somebody changed something says nothing.
    let mark = names.mark();
    names.forget();
    names.learn_page(mark, NodeId(1), None, &[], true);
    assert_eq!(names.lookup(NodeId(1), &name("y")), Member::Unknown);
    assert_eq!([1, 2, 3, 4].map(|_| names.missed(NodeId(1))), [false, false, true, false]);
    names.forget();
    assert_eq!([1, 2, 3, 4].map(|_| names.missed(NodeId(1))), [false; 4], "it was asked a moment ago");
}
