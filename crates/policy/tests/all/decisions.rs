//! The order of decision, one sentence each.

use crate::random::{Dice, PROGRAMS};
use holdfast_policy::{
    Arguments, Conditions, Decision, Judge, Operation, Operations, Policy, Programs, Request, Rule, Scope, Settings,
};
use std::path::Path;

fn policy(default: Decision, rules: Vec<Rule>) -> Policy {
    Policy::new(default, true, rules, Settings::default()).unwrap()
}

fn may(policy: &Policy, operation: Operation, path: &str) -> bool {
    may_by(policy, "/bin/sh", operation, path)
}

fn may_by(policy: &Policy, program: &str, operation: Operation, path: &str) -> bool {
    let request =
        Request { program: Path::new(program), operation, path: Path::new(path), arguments: Arguments::default() };
    policy.judge(&request).allowed
}

fn tree(path: &str, allow: Operations) -> Rule {
    Rule::entry(Scope::Tree(path.into()), allow)
}

#[test]
fn the_nearest_folder_overrides_those_above() {
    let policy = policy(
        Decision::Deny,
        vec![tree("/w", Operations::ALL), tree("/w/.git", Operations::READ), tree("/w/.git/x", Operations::ALL)],
    );
    assert!(may(&policy, Operation::Write, "/w/a"));
    assert!(!may(&policy, Operation::Write, "/w/.git/config"));
    assert!(may(&policy, Operation::Read, "/w/.git/config"));
    assert!(may(&policy, Operation::Write, "/w/.git/x/y"));
    assert!(!may(&policy, Operation::Read, "/wx"));
}

#[test]
fn a_folder_on_the_way_is_passable_and_no_more() {
    let policy = policy(Decision::Deny, vec![tree("/home", Operations::NONE), tree("/home/me/p", Operations::ALL)]);
    for path in ["/", "/home", "/home/me"] {
        assert!(may(&policy, Operation::Lookup, path) && may(&policy, Operation::Getattr, path), "{path}");
        assert!(!may(&policy, Operation::Readdir, path), "{path}");
    }
    assert!(!may(&policy, Operation::Lookup, "/home/you"));
}

#[test]
fn an_exact_rule_closes_the_way() {
    let policy = policy(
        Decision::Deny,
        vec![Rule::entry(Scope::Exact("/home".into()), Operations::NONE), tree("/home/me/p", Operations::ALL)],
    );
    assert!(!may(&policy, Operation::Lookup, "/home"));
    assert!(may(&policy, Operation::Lookup, "/home/me"));
}

#[test]
fn a_way_is_open_only_to_the_programs_it_leads_somewhere() {
    let rule = Rule::new(Scope::Tree("/a/b".into()), Operations::ALL, Operations::NONE).by(Programs::named("cat"));
    let policy = policy(Decision::Deny, vec![rule]);
    assert!(may_by(&policy, "/bin/cat", Operation::Lookup, "/a"));
    assert!(!may_by(&policy, "/bin/sh", Operation::Lookup, "/a"));
}

#[test]
fn the_long_form_beats_the_short_one_at_the_same_place() {
    let rule =
        Rule::new(Scope::Tree("/w".into()), Operations::NONE, Operations::of(&[Operation::Unlink, Operation::Rename]));
    let policy = policy(Decision::Deny, vec![rule, tree("/w", Operations::ALL)]);
    assert!(!may(&policy, Operation::Unlink, "/w/a"));
    assert!(may(&policy, Operation::Write, "/w/a"));
}

#[test]
fn a_pattern_beats_folders_and_loses_to_an_exact_path() {
    let policy = policy(
        Decision::Deny,
        vec![
            Rule::entry(Scope::Glob("/w/*.log".into()), Operations::READ),
            tree("/w", Operations::ALL),
            Rule::entry(Scope::Exact("/w/my.log".into()), Operations::ALL),
        ],
    );
    assert!(!may(&policy, Operation::Write, "/w/a.log"));
    assert!(may(&policy, Operation::Write, "/w/my.log"));
    assert!(may(&policy, Operation::Write, "/w/sub/a.log"));
}

#[test]
fn a_program_by_path_beats_its_name_and_its_name_beats_a_pattern() {
    let unlink = Operations::of(&[Operation::Unlink]);
    let rule = |allow: bool, programs| {
        let (yes, no) = if allow { (unlink, Operations::NONE) } else { (Operations::NONE, unlink) };
        Rule::new(Scope::Tree("/w".into()), yes, no).by(programs)
    };
    let glob = Programs::new([], [], ["/bin/*".to_owned()]).unwrap();
    let policy = policy(
        Decision::Deny,
        vec![rule(true, Programs::at("/bin/sh")), rule(false, Programs::named("sh")), rule(true, glob)],
    );
    assert!(may_by(&policy, "/bin/sh", Operation::Unlink, "/w/a"));
    assert!(!may_by(&policy, "/opt/sh", Operation::Unlink, "/w/a"));
    assert!(may_by(&policy, "/bin/cat", Operation::Unlink, "/w/a"));
    assert!(!may_by(&policy, "/opt/cat", Operation::Unlink, "/w/a"));
}

#[test]
fn a_rule_with_arguments_applies_to_those_alone() {
    let read = Operations::of(&[Operation::Read]);
    let conditions = Conditions { length: Some(100), offset: Some(0), ..Conditions::default() };
    let rule = Rule::new(Scope::Exact("/f".into()), Operations::NONE, read).when(conditions);
    let policy = policy(Decision::Allow, vec![rule]);
    let ask = |length, offset| {
        let arguments = Arguments { length, offset, ..Arguments::default() };
        let request =
            Request { program: Path::new("/p"), operation: Operation::Read, path: Path::new("/f"), arguments };
        policy.judge(&request).allowed
    };
    assert!(!ask(Some(100), Some(0)));
    assert!(ask(Some(100), Some(1)) && ask(Some(99), Some(0)) && ask(None, Some(0)));
}

#[test]
fn what_is_no_path_is_refused_even_where_everything_is_allowed() {
    let policy = policy(Decision::Allow, vec![]);
    for path in ["", "a", "./a", "/a/../b", "/a/./b", "/.."] {
        assert!(!may(&policy, Operation::Read, path), "{path:?}");
    }
    assert!(may(&policy, Operation::Read, "//a//b/"));
}

#[test]
fn an_operation_that_no_rule_refuses_need_not_be_looked_at() {
    let deny = Rule::new(Scope::Tree("/".into()), Operations::NONE, Operations::of(&[Operation::Unlink]));
    let list = policy(Decision::Allow, vec![deny]);
    assert!(list.decides(Operation::Unlink) && !list.decides(Operation::Read));
    let all = policy(Decision::Deny, vec![tree("/", Operations::READ)]);
    assert!(all.decides(Operation::Write) && !all.decides(Operation::Read));
}

#[test]
fn names_that_are_not_text_are_told_apart() {
    use std::os::unix::ffi::OsStrExt;
    let name = |bytes: &[u8]| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned();
    let policy = policy(Decision::Deny, vec![Rule::entry(Scope::Tree(name(b"/a\xff")), Operations::ALL)]);
    let ask = |path: &[u8]| policy.allowed(Path::new("/p"), &name(path), Arguments::default());
    assert_eq!(ask(b"/a\xff/b"), Operations::ALL);
    assert_eq!(ask(b"/a\xfe/b"), Operations::NONE);
}

/// What is said of all programs and of a whole folder holds for each program and each path there.
#[test]
fn what_is_said_of_all_is_so_for_each() {
    let (mut found, mut same) = (0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice::new(seed);
        let (policy, folder) = (dice.policy(), dice.path());
        let (finds_all, names_programs) = (policy.finds_all(&folder), policy.names_programs());
        for _ in 0..40 {
            let (program, arguments) = (dice.one(&PROGRAMS), dice.arguments());
            let judge = |program: &str, operation, path: &Path| {
                policy.judge(&Request { program: Path::new(program), operation, path, arguments }).allowed
            };
            let inside =
                dice.path().iter().skip(1).fold(folder.join(dice.one(&["a", "b", "ab"])), |path, name| path.join(name));
            if finds_all {
                found += 1;
                assert!(judge(program, Operation::Lookup, &inside), "{seed}: {folder:?} {inside:?} {policy:#?}");
            }
            if !names_programs {
                same += 1;
                let (operation, path) = (dice.one(&Operation::ALL), dice.path());
                assert_eq!(judge(program, operation, &path), judge("/", operation, &path), "{seed}: {path:?}");
            }
        }
    }
    assert!(found > 5_000 && same > 5_000, "{found} {same}");
}

#[test]
fn everything_in_a_folder_is_found_unless_a_rule_may_be_about_something_there() {
    let none = |path: &str| Rule::entry(Scope::Exact(path.into()), Operations::NONE);
    let finds = |default, rules: Vec<Rule>| policy(default, rules).finds_all(Path::new("/w"));
    assert!(finds(Decision::Allow, vec![]));
    assert!(finds(Decision::Allow, vec![none("/v/x"), none("/")]));
    assert!(finds(Decision::Deny, vec![tree("/", Operations::NONE), tree("/w", Operations::READ)]));
    assert!(!finds(Decision::Deny, vec![tree("/w/a", Operations::ALL)]));
    assert!(!finds(Decision::Deny, vec![Rule::entry(Scope::Exact("/w".into()), Operations::ALL)]));
    assert!(!finds(Decision::Allow, vec![none("/w/x")]));
    assert!(!finds(Decision::Allow, vec![tree("/", Operations::NONE)]));
    assert!(!finds(Decision::Allow, vec![Rule::entry(Scope::Glob("/*/x".into()), Operations::NONE)]));
    let of_one = Rule::new(Scope::Tree("/w/a".into()), Operations::NONE, Operations::ALL);
    let of_one = of_one.by(Programs::new(vec!["/bin/sh".into()], vec![], vec![]).unwrap());
    assert!(!finds(Decision::Allow, vec![of_one]));
}
