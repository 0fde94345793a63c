//! What the sixteen example policies of `BoesFS` are for, each told anew for a desk with papers, and what each must decide.

use Operation::{Create, Exec, Getattr, Link, Lookup, Mkdir, Read, Readdir, Rmdir, Unlink, Write};
use holdfast_policy::{Arguments, Judge, Operation, PairOptions, Policy, Request, Subject};
use std::path::Path;

/// Fields, comparisons and whether the list allows.
type Model = (&'static str, &'static str, bool);

const ALL_DENY: Model = ("sub, obj, act", "r.sub == p.sub && r.obj == p.obj && r.act == p.act", false);
const ALL_ALLOW: Model = ("sub, obj, act", "r.sub == p.sub && r.obj == p.obj && r.act == p.act", true);
const NO_ACTION: Model = ("sub, obj", "r.sub == p.sub && r.obj == p.obj", false);
const NO_OBJECT: Model = ("sub, act", "r.sub == p.sub && r.act == p.act", true);
const NO_SUBJECT: Model = ("obj, act", "r.obj == p.obj && r.act == p.act", false);
const WITH_ARGUMENTS: Model =
    ("sub, obj, act, args", "r.sub == p.sub && r.obj == p.obj && r.act == p.act && r.args == p.args", false);

fn policy((fields, comparisons, allows): Model, lines: &str) -> Policy {
    let effect = if allows { "some(where (p.eft == allow))" } else { "!some(where (p.eft == deny))" };
    let model = format!(
        "[request_definition]\nr = {fields}\n\n[policy_definition]\np = {fields}\n\n[policy_effect]\ne = {effect}\n\n[matchers]\nm = {comparisons}"
    );
    let options = PairOptions { subject: Subject::Launched(Path::new("/usr/bin/clerk")), mounted: None };
    let texts = (("model.txt", model.as_bytes()), ("policy.txt", lines.as_bytes()));
    Policy::from_pair(texts.0, texts.1, options).map_err(|mistakes| mistakes.to_string()).unwrap()
}

fn may(policy: &Policy, operation: Operation, path: &str) -> bool {
    with(policy, operation, path, Arguments::default())
}

fn with(policy: &Policy, operation: Operation, path: &str, arguments: Arguments<'_>) -> bool {
    let (program, path) = (Path::new("/usr/bin/clerk"), Path::new(path));
    policy.judge(&Request { program, operation, path, arguments }).allowed
}

/// Asserts what is allowed and what is refused.
fn decides(policy: &Policy, allowed: &[(Operation, &str)], refused: &[(Operation, &str)]) {
    for (operation, path) in allowed {
        assert!(may(policy, *operation, path), "{operation:?} of {path} was refused: {:#?}", policy.describe());
    }
    for (operation, path) in refused {
        assert!(!may(policy, *operation, path), "{operation:?} of {path} was allowed: {:#?}", policy.describe());
    }
}

#[test]
fn one_the_clerk_leaves_two_papers_alone_whatever_it_would_do() {
    let policy = policy(NO_ACTION, "p, clerk, /desk/will, file, deny\np, clerk, /desk/safe, file, deny");
    decides(&policy, &[(Read, "/desk/other"), (Read, "/desk/safe/inside")], &[]);
    for operation in Operation::ALL {
        assert!(!may(&policy, operation, "/desk/will") && !may(&policy, operation, "/desk/safe"));
    }
}

#[test]
fn two_only_one_drawer_can_be_seen() {
    let lines = "p, clerk, /desk, open, file, allow\np, clerk, /desk/left, lookup, file, allow\np, clerk, /desk/left, open, file, allow\n\
         p, clerk, /desk/left/top, lookup, file, allow\np, clerk, /desk/left/top, open, file, allow\n\
         p, clerk, /desk/left/top, lookup, dir, allow\np, clerk, /desk/left/top, open, dir, allow";
    decides(
        &policy(ALL_ALLOW, lines),
        &[
            (Readdir, "/desk"),
            (Lookup, "/desk/left"),
            (Lookup, "/desk/left/top"),
            (Lookup, "/desk/left/top/a/b"),
            (Readdir, "/desk/left/top/a"),
        ],
        &[
            (Lookup, "/desk/right"),
            (Lookup, "/desk/left/low"),
            (Lookup, "/desk/paper"),
            (Read, "/desk/left/top/a"),
            (Unlink, "/desk/left/top/a"),
        ],
    );
}

const HIDDEN: &str = "p, clerk, /desk/box, lookup, file, deny\np, clerk, /desk/note, lookup, file, deny\np, clerk, /desk/tray, open, file, deny";

#[test]
fn three_a_box_and_a_note_cannot_be_found_and_a_tray_cannot_be_opened() {
    decides(
        &policy(ALL_DENY, HIDDEN),
        &[(Lookup, "/desk/tray"), (Lookup, "/desk/other"), (Getattr, "/desk/tray")],
        &[(Lookup, "/desk/box"), (Lookup, "/desk/note"), (Readdir, "/desk/tray")],
    );
}

const SEVEN: [(&str, &str, Operation); 7] = [
    ("lookup", "/desk/a", Lookup),
    ("read", "/desk/b", Read),
    ("write", "/desk/c", Write),
    ("open", "/desk/d", Read),
    ("unlink", "/desk/e", Unlink),
    ("mkdir", "/desk/f", Mkdir),
    ("rmdir", "/desk/g", Rmdir),
];

/// A line for each of the seven first operations, each about a paper of its own.
fn seven(subject: &str) -> String {
    let lines: Vec<_> =
        SEVEN.iter().map(|(action, path, _)| format!("p, {subject}{path}, {action}, file, deny")).collect();
    lines.join("\n")
}

fn each_of_seven(policy: &Policy) {
    for (_, path, refused) in SEVEN {
        decides(policy, &[(Link, path)], &[(refused, path)]);
        let others = SEVEN.iter().filter(|(_, other, operation)| *other != path && *operation != refused);
        for (action, _, operation) in others {
            // What cannot be opened can neither be read nor written.
            let part = path == "/desk/d" && matches!(operation, Read | Write);
            assert!(part || may(policy, *operation, path), "{action} of {path}");
        }
    }
}

#[test]
fn four_each_paper_is_closed_to_one_thing_only() {
    each_of_seven(&policy(ALL_DENY, &seven("/usr/bin/clerk, ")));
}

#[test]
fn five_nothing_in_a_drawer_is_written_or_removed_and_the_drawer_itself_is_not_meant() {
    let lines = "p, clerk, /desk/left, write, dir, deny\np, clerk, /desk/left, unlink, dir, deny";
    decides(
        &policy(ALL_DENY, lines),
        &[(Read, "/desk/left/a"), (Write, "/desk/left"), (Write, "/desk/right/a"), (Rmdir, "/desk/left/sub")],
        &[(Write, "/desk/left/a"), (Unlink, "/desk/left/sub/b")],
    );
}

#[test]
fn six_the_seven_first_operations_for_whoever_is_named_by_its_file_name() {
    each_of_seven(&policy(ALL_DENY, &seven("/somewhere/else/clerk, ")));
}

#[test]
fn seven_everything_may_be_found_opened_and_read_and_nothing_else() {
    let lines = "p, clerk, lookup, file, allow\np, clerk, read, file, allow\np, clerk, open, file, allow";
    decides(
        &policy(NO_OBJECT, lines),
        &[(Lookup, "/x"), (Read, "/x/y"), (Readdir, "/"), (Exec, "/bin/ls")],
        &[(Write, "/x"), (Unlink, "/x"), (Mkdir, "/x/z"), (Create, "/x/z")],
    );
}

#[test]
fn eight_papers_and_a_drawer_are_closed_to_every_program() {
    let policy = policy(
        NO_SUBJECT,
        &format!("{}\np, /desk/left, write, dir, deny\np, /desk/left, unlink, dir, deny", seven("")),
    );
    each_of_seven(&policy);
    decides(&policy, &[(Read, "/desk/left/a")], &[(Write, "/desk/left/a"), (Unlink, "/desk/left/a")]);
    let request = Request {
        program: Path::new("/any/program"),
        operation: Write,
        path: Path::new("/desk/left/a"),
        arguments: Arguments::default(),
    };
    assert!(!policy.judge(&request).allowed);
}

#[test]
fn nine_one_paper_of_a_closed_drawer_may_be_written_but_not_removed() {
    let lines = "p, clerk, /desk/left/sub/list, unlink, file, deny\np, clerk, /desk/left, write, dir, deny\np, clerk, /desk/left, unlink, dir, deny";
    decides(
        &policy(ALL_DENY, lines),
        &[(Write, "/desk/left/sub/list")],
        &[(Unlink, "/desk/left/sub/list"), (Write, "/desk/left/sub/b"), (Unlink, "/desk/left/a")],
    );
}

#[test]
fn ten_a_nearer_folder_and_a_paper_in_it_each_say_something_else() {
    let lines = "p, clerk, /desk/left, write, dir, deny\np, clerk, /desk/left, unlink, dir, deny\n\
         p, clerk, /desk/left/sub, unlink, dir, deny\np, clerk, /desk/left/sub/list, write, file, deny";
    decides(
        &policy(ALL_DENY, lines),
        &[(Write, "/desk/left/sub/b"), (Unlink, "/desk/left/sub/list")],
        &[
            (Write, "/desk/left/a"),
            (Unlink, "/desk/left/a"),
            (Unlink, "/desk/left/sub/b"),
            (Write, "/desk/left/sub/list"),
        ],
    );
}

#[test]
fn eleven_two_folders_take_back_one_half_each_of_what_is_refused_above_them() {
    let lines = "p, clerk, /desk/left, rmdir, dir, deny\np, clerk, /desk/left, read, dir, deny\n\
         p, clerk, /desk/left/red, rmdir, dir, deny\np, clerk, /desk/left/blue, read, dir, deny";
    decides(
        &policy(ALL_DENY, lines),
        &[(Rmdir, "/desk/left/blue/x"), (Read, "/desk/left/red/x/y")],
        &[(Rmdir, "/desk/left/x"), (Read, "/desk/left/x"), (Read, "/desk/left/blue/x"), (Rmdir, "/desk/left/red/x")],
    );
}

#[test]
fn twelve_what_cannot_be_found_or_opened_is_as_open_as_ever_to_others() {
    let lines = HIDDEN.replace("clerk", "boss");
    decides(&policy(ALL_DENY, &lines), &[(Lookup, "/desk/box"), (Lookup, "/desk/note"), (Readdir, "/desk/tray")], &[]);
}

#[test]
fn thirteen_all_is_seen_one_folder_is_not_and_one_is_read_and_written() {
    let lines = "p, clerk, /desk, open, file, allow\n\np, clerk, /desk, open, dir, allow\np, clerk, /desk, lookup, dir, allow\n\
         p, clerk, /desk/safe, rmdir, file, allow\n\np, clerk, /desk/work, read, dir, allow\np, clerk, /desk/work, write, dir, allow\n\
         p, clerk, /desk/work, open, dir, allow\np, clerk, /desk/work, lookup, dir, allow";
    decides(
        &policy(ALL_ALLOW, lines),
        &[
            (Readdir, "/desk"),
            (Lookup, "/desk/a"),
            (Lookup, "/desk/a/b"),
            (Read, "/desk/work/a"),
            (Write, "/desk/work/a/b"),
            (Rmdir, "/desk/safe"),
        ],
        &[
            (Lookup, "/desk/safe"),
            (Read, "/desk/a"),
            (Write, "/desk/a"),
            (Unlink, "/desk/a"),
            (Unlink, "/desk/work/a"),
            (Lookup, "/other"),
        ],
    );
}

#[test]
fn fourteen_papers_drawers_and_a_nearer_drawer_together() {
    let lines = format!(
        "{}\np, clerk, /desk/left, write, dir, deny\np, clerk, /desk/left, unlink, dir, deny\np, clerk, /desk/left/sub, unlink, dir, deny\n\
         p, clerk, /desk/right, read, dir, deny\np, clerk, /desk/right, lookup, dir, deny",
        seven("/usr/bin/clerk, ")
    );
    let policy = policy(ALL_DENY, &lines);
    each_of_seven(&policy);
    decides(
        &policy,
        &[(Write, "/desk/left/sub/a"), (Lookup, "/desk/right"), (Write, "/desk/right/a")],
        &[(Write, "/desk/left/a"), (Unlink, "/desk/left/sub/a"), (Read, "/desk/right/a"), (Lookup, "/desk/right/a")],
    );
}

#[test]
fn fifteen_reading_is_refused_by_how_much_and_from_where_and_linking_by_to_what() {
    let lines = "p, clerk, /desk/any, read, (*,*), file, deny\np, clerk, /desk/begin, read, (*,0), file, deny\np, clerk, /desk/much, read, (100,*), file, deny\n\
         p, clerk, /desk/both, read, (100,0), file, deny\np, clerk, /desk/fix, link, (*), file, deny\np, clerk, /desk/bind, link, (/desk/copy), file, deny";
    let policy = policy(WITH_ARGUMENTS, lines);
    let reads = |path, length, offset| {
        let arguments = Arguments { length: Some(length), offset: Some(offset), ..Arguments::default() };
        with(&policy, Read, path, arguments)
    };
    assert!(!reads("/desk/any", 1, 1));
    assert!(!reads("/desk/begin", 1, 0) && reads("/desk/begin", 1, 1));
    assert!(!reads("/desk/much", 100, 1) && reads("/desk/much", 99, 1));
    assert!(!reads("/desk/both", 100, 0) && reads("/desk/both", 100, 1) && reads("/desk/both", 99, 0));
    let copies = |path, to| with(&policy, Link, path, Arguments { other: Some(Path::new(to)), ..Arguments::default() });
    assert!(!copies("/desk/fix", "/x") && !copies("/desk/bind", "/desk/copy") && copies("/desk/bind", "/x"));
}

#[test]
fn sixteen_lines_of_the_other_kind_and_rows_of_signs_change_nothing() {
    let shown = "p, clerk, /desk, open, file, allow\np, clerk, /desk/left, lookup, file, allow\np, clerk, /desk/left, lookup, dir, allow";
    let mixed = format!("{shown}\n\n{HIDDEN}\n\n==========\n# once more\n{shown}\n==========\n");
    let (plain, mixed) = (policy(ALL_ALLOW, shown), policy(ALL_ALLOW, &mixed));
    assert_eq!(plain.describe(), mixed.describe());
    decides(&mixed, &[(Lookup, "/desk/left/a"), (Readdir, "/desk")], &[(Lookup, "/desk/box"), (Lookup, "/desk/tray")]);
}
