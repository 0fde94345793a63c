#![allow(clippy::unwrap_used)]

use super::{PairOptions, Subject, read};
use crate::{Arguments, Decision, Judge, Operation, Operations, Policy, Request};
use std::path::Path;

const CALLING: PairOptions<'_> = PairOptions { subject: Subject::Calling, mounted: None };

/// A model with some fields, that refuses or allows, with roles where its comparisons have some.
fn model(fields: &str, allows: bool, comparisons: &str) -> String {
    let effect = if allows { "some(where (p.eft == allow))" } else { "!some(where (p.eft == deny))" };
    let roles = match (comparisons.contains("g("), comparisons.contains("a(")) {
        (false, false) => "",
        (true, false) => "[role_definition]\ng = _, _\n\n",
        (false, true) => "[role_definition]\na = _, _; _, _\n\n",
        (true, true) => "[role_definition]\ng = _, _\na = _, _; _, _\n\n",
    };
    format!(
        "[request_definition]\nr = {fields}\n\n[policy_definition]\np = {fields}\n\n{roles}[policy_effect]\ne = {effect}\n\n[matchers]\nm = {comparisons}\n"
    )
}

fn pair(model: &str, policy: &str, options: PairOptions<'_>) -> Result<Policy, String> {
    let read = Policy::from_pair(("model.txt", model.as_bytes()), ("policy.txt", policy.as_bytes()), options);
    read.map_err(|mistakes| mistakes.to_string())
}

fn may(policy: &Policy, program: &str, operation: Operation, path: &str, arguments: Arguments<'_>) -> bool {
    let (program, path) = (Path::new(program), Path::new(path));
    policy.judge(&Request { program, operation, path, arguments }).allowed
}

/// Every combination that means something, with a line for it that is about `/d/f`, reading, 100 bytes, by `sh`.
const COMBINATIONS: [(&str, &str, &str); 13] = [
    ("sub, obj", "r.sub == p.sub && r.obj == p.obj", "p, /bin/sh, /d/f, file, E"),
    ("sub, obj", "g(r.sub, p.sub) && r.obj == p.obj", "g, /bin/sh, shell\np, shell, /d/f, file, E"),
    ("sub, act", "r.sub == p.sub && r.act == p.act", "p, /bin/sh, lookup, file, E"),
    ("sub, act", "g(r.sub, p.sub) && r.act == p.act", "g, sh, shell\np, shell, lookup, file, E"),
    ("obj, act", "r.obj == p.obj && r.act == p.act", "p, /d/f, lookup, file, E"),
    ("sub, obj, act", "r.sub == p.sub && r.obj == p.obj && r.act == p.act", "p, sh, /d/f, lookup, file, E"),
    (
        "sub, obj, act",
        "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act",
        "p, shell, /d, lookup, dir, E\ng, /x/sh, shell",
    ),
    (
        "sub, obj, act, args",
        "r.sub == p.sub && r.obj == p.obj && r.act == p.act && r.args == p.args",
        "p, sh, /d/f, lookup, (7), file, E",
    ),
    (
        "sub, obj, act, args",
        "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act && r.args == p.args",
        "g, sh, shell\np, shell, /d/f, lookup, (7), file, E",
    ),
    ("obj, act, args", "r.obj == p.obj && r.act == p.act && r.args == p.args", "p, /d/f, lookup, (7), file, E"),
    (
        "sub, obj, act, args",
        "r.sub == p.sub && r.obj == p.obj && a(r.act, p.act; r.args, p.args)",
        "a, find, lookup, (7)\np, sh, /d/f, find, file, E",
    ),
    (
        "sub, obj, act, args",
        "g(r.sub, p.sub) && r.obj == p.obj && a(r.act, p.act; r.args, p.args)",
        "a, find, lookup, (7)\ng, sh, shell\np, shell, /d/f, find, file, E",
    ),
    (
        "obj, act, args",
        "r.obj == p.obj && a(r.act, p.act; r.args, p.args)",
        "p, /d/f, find, file, E\na, find, lookup, (7)",
    ),
];

#[test]
fn every_combination_of_comparisons_decides_by_what_it_compares() {
    for allows in [false, true] {
        for (fields, comparisons, lines) in COMBINATIONS {
            let lines = lines.replace('E', if allows { "allow" } else { "deny" });
            let policy = pair(&model(fields, allows, comparisons), &lines, CALLING).unwrap();
            let ask = |program, operation, path, flags| {
                let arguments = Arguments { flags: Some(flags), ..Arguments::default() };
                may(&policy, program, operation, path, arguments) == allows
            };
            assert!(ask("/bin/sh", Operation::Lookup, "/d/f", 7), "{comparisons}");
            let subject = !comparisons.contains("sub");
            assert_eq!(ask("/bin/cat", Operation::Lookup, "/d/f", 7), subject, "{comparisons}");
            let object = !comparisons.contains("obj");
            assert_eq!(ask("/bin/sh", Operation::Lookup, "/e/f", 7), object, "{comparisons}");
            let action = !comparisons.contains("act");
            assert_eq!(ask("/bin/sh", Operation::Mkdir, "/d/f", 7), action, "{comparisons}");
            let arguments = !comparisons.contains("args");
            assert_eq!(ask("/bin/sh", Operation::Lookup, "/d/f", 8), arguments, "{comparisons}");
        }
    }
}

const DENYING: &str = "r.sub == p.sub && r.obj == p.obj && r.act == p.act";

fn denying(policy: &str, options: PairOptions<'_>) -> Policy {
    pair(&model("sub, obj, act", false, DENYING), policy, options).unwrap()
}

#[test]
fn the_rules_of_the_launched_program_hold_for_all_it_starts() {
    let launched = |program| PairOptions { subject: Subject::Launched(Path::new(program)), mounted: None };
    let lines = "p, /bin/bash, /d/f, read, file, deny\np, /bin/cat, /d/g, read, file, deny";
    let policy = denying(lines, launched("/usr/bin/bash"));
    let read = |policy: &Policy, program, path| may(policy, program, Operation::Read, path, Arguments::default());
    assert!(!read(&policy, "/bin/cat", "/d/f") && read(&policy, "/bin/cat", "/d/g"));
    assert!(denying(lines, launched("/bin/true")).rules().is_empty());
    let policy = denying(lines, CALLING);
    assert!(read(&policy, "/bin/cat", "/d/f") && !read(&policy, "/bin/cat", "/d/g"));
}

#[test]
fn roles_of_a_program_add_up_at_a_node() {
    let model = model("sub, obj, act", false, "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act");
    let lines = "g, sh, one\ng, sh, two\ng, cat, two\np, one, /f, read, file, deny\np, two, /f, write, file, deny";
    let policy = pair(&model, lines, CALLING).unwrap();
    let ask = |program, operation| may(&policy, program, operation, "/f", Arguments::default());
    assert!(!ask("/bin/sh", Operation::Read) && !ask("/bin/sh", Operation::Write));
    assert!(ask("/bin/cat", Operation::Read) && !ask("/bin/cat", Operation::Write));
}

#[test]
fn a_folder_outside_of_which_nothing_is_decided() {
    let model = model("obj, act", true, "r.obj == p.obj && r.act == p.act");
    let options = PairOptions { mounted: Some(Path::new("/m")), ..CALLING };
    let policy = pair(&model, "p, /m/a, lookup, file, allow", options).unwrap();
    let allowed = |path| policy.allowed(Path::new("/p"), Path::new(path), Arguments::default());
    assert_eq!(allowed("/etc/x"), Operations::ALL);
    assert_eq!(allowed("/m"), Operations::NONE);
    assert_eq!(allowed("/m/b"), Operations::NONE);
    assert_eq!(allowed("/m/a"), Operations::of(&[Operation::Lookup]));
    // No way is implied: it was not there.
    let policy = pair(&model, "p, /m/a/b, lookup, file, allow", CALLING).unwrap();
    assert!(!may(&policy, "/p", Operation::Lookup, "/m/a", Arguments::default()));
}

#[test]
fn arguments_are_taken_in_the_order_of_the_operation() {
    let model = model("obj, act, args", false, "r.obj == p.obj && r.act == p.act && r.args == p.args");
    let lines = "p, /a, read, (100, *), file, deny\np, /b, write, (*, 0), file, deny\np, /c, rename, (/d), file, deny\n\
         p, /e, setattr, (420, *, 7), file, deny\np, /f, llseek, (-1, 2), file, deny\np, /g, open, (*), file, deny\np, /h, mmap, (0, 4096), file, deny";
    let policy = pair(&model, lines, CALLING).unwrap();
    let with = |length, offset| Arguments { length, offset, ..Arguments::default() };
    let ask = |operation, path, arguments| may(&policy, "/p", operation, path, arguments);
    assert!(
        !ask(Operation::Read, "/a", with(Some(100), Some(5))) && ask(Operation::Read, "/a", with(Some(99), Some(5)))
    );
    assert!(
        !ask(Operation::Write, "/b", with(Some(9), Some(0))) && ask(Operation::Write, "/b", with(Some(9), Some(1)))
    );
    let other = |path| Arguments { other: Some(Path::new(path)), ..Arguments::default() };
    assert!(!ask(Operation::Rename, "/c", other("/d")) && ask(Operation::Rename, "/c", other("/e")));
    let setattr = |mode, gid| Arguments { mode: Some(mode), uid: Some(1), gid: Some(gid), ..Arguments::default() };
    assert!(!ask(Operation::Setattr, "/e", setattr(0o644, 7)) && ask(Operation::Setattr, "/e", setattr(0o600, 7)));
    let seek = |offset, whence| Arguments { offset: Some(offset), whence: Some(whence), ..Arguments::default() };
    assert!(!ask(Operation::Llseek, "/f", seek(-1, 2)) && ask(Operation::Llseek, "/f", seek(-1, 1)));
    assert!(!ask(Operation::Read, "/g", Arguments::default()));
    let map = |range| Arguments { range: Some(range), ..Arguments::default() };
    assert!(!ask(Operation::Mmap, "/h", map((0, 4096))) && ask(Operation::Mmap, "/h", map((0, 8192))));
}

#[test]
fn lines_of_the_other_effect_and_unused_roles_are_warned_of() {
    let model = model("sub, obj, act", true, "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act");
    let lines = "# comment\n\n====\np, nobody, /a, read, file, allow\np, nobody, /b, read, file, deny\np, nobody, /c, default, dir, allow";
    let (policy, warnings) = read(("m", model.as_bytes()), ("p", lines.as_bytes()), CALLING).unwrap();
    let lines: Vec<_> = warnings.iter().map(|warning| warning.line).collect();
    assert_eq!(lines, [4, 5, 5, 6, 6], "{warnings:?}");
    assert_eq!((policy.default(), policy.rules().len()), (Decision::Deny, 0));
}

#[test]
fn each_mistake_of_a_model_is_named() {
    let good = model("sub, obj", false, "r.sub == p.sub && r.obj == p.obj");
    for (from, to, said) in [
        ("[matchers]", "[matcher]", "m:10: \"[matcher]\" is no part of a model; did you mean \"[matchers]\"?"),
        ("[request_definition]\n", "", "m:1: a model begins with [request_definition]"),
        ("p = sub, obj", "p = sub, obi", "m:5: \"obi\" is no field; did you mean \"obj\"?"),
        ("p = sub, obj", "p = obj, sub", "m:5: two or more of the fields"),
        ("p = sub, obj", "p = sub", "m:5: two or more of the fields"),
        ("p = sub, obj", "q = sub, obj", "m:5: a line of [policy_definition] begins with `p=`"),
        ("p = sub, obj", "p = sub, act", "m:11: a field is compared that [policy_definition] does not have"),
        ("deny", "allow", "m:8: \"!some(where(p.eft==allow))\" is no effect"),
        ("r.sub == p.sub && ", "", "m:11: these comparisons do not go together"),
        ("r.sub == p.sub &&", "r.sub == p.sub &", "m:11: \"r.sub==p.sub&r.obj==p.obj\" is no comparison"),
        ("r.sub == p.sub", "g(r.sub, p.sub)", "m:11: a role is compared that [role_definition] does not have"),
        ("[matchers]\nm = r.sub == p.sub && r.obj == p.obj", "", "m: [matchers] is missing"),
    ] {
        let text = good.replace(from, to);
        let mistakes = read(("m", text.as_bytes()), ("p", b""), CALLING).unwrap_err().to_string();
        assert!(mistakes.starts_with(said), "{mistakes}\n{text}");
    }
}

#[test]
fn each_mistake_of_a_policy_is_named() {
    let all =
        model("sub, obj, act, args", false, "r.sub == p.sub && r.obj == p.obj && r.act == p.act && r.args == p.args");
    for (line, said) in [
        ("p, sh, /a, read, (*), file", "p:1: the model has 4 fields before file or dir, and here are 3"),
        ("p", "p:1: a rule ends in file or dir"),
        ("p, sh, /a, reed, (*), file, deny", "p:1: \"reed\" is no operation; did you mean \"read\"?"),
        ("p, sh, /a, truncate, (*), file, deny", "p:1: \"truncate\" is no operation"),
        ("p, sh, a, read, (*), file, deny", "p:1: a path is absolute"),
        ("p, sh, /a/../b, read, (*), file, deny", "p:1: a path is absolute, without `..`"),
        ("p, sh, /a, read, (*), folder, deny", "p:1: \"folder\" is no kind of path"),
        ("p, sh, /a, read, (*), dir, denied", "p:1: \"denied\" is no effect; did you mean \"deny\"?"),
        ("p, sh, /a, read, *, dir, deny", "p:1: arguments are in parentheses"),
        ("p, sh, /a, read, (1, 2, 3), dir, deny", "p:1: this operation has 2 arguments, and here are 3"),
        ("p, sh, /a, read, (x), dir, deny", "p:1: \"x\" is no length"),
        ("p, /, /a, read, (*), dir, deny", "p:1: \"/\" is no program"),
        ("q, sh, /a, read, (*), dir, deny", "p:1: a line begins with"),
        ("g, sh", "p:1: a role of programs is given so"),
        ("a, sh", "p:1: a role of operations is given so"),
    ] {
        let mistakes = read(("m", all.as_bytes()), ("p", line.as_bytes()), CALLING).unwrap_err().to_string();
        assert!(mistakes.starts_with(said), "{mistakes}\n{line}");
    }
    let mistakes = read(("m", all.as_bytes()), ("p", b"p, \xff"), CALLING).unwrap_err().to_string();
    assert!(mistakes.contains("byte 3 is not UTF-8"));
}

#[test]
fn roles_that_would_make_too_many_rules_are_refused_before_they_do() {
    let model = model("obj, act, args", false, "r.obj == p.obj && a(r.act, p.act; r.args, p.args)");
    let many: Vec<_> = (0..2000).map(|number| format!("a, r, read, ({number})\np, /{number}, r, file, deny")).collect();
    assert!(pair(&model, &many.join("\n"), CALLING).unwrap_err().contains("at most 100000 rules"));
}
