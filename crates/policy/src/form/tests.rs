#![allow(clippy::unwrap_used)]

use crate::{Arguments, Judge, Operation, Operations, Policy, Request, Scope};
use std::path::Path;

fn read(text: &str) -> Result<Policy, String> {
    Policy::from_toml("p.toml", Path::new("/base"), text.as_bytes()).map_err(|mistakes| mistakes.to_string())
}

fn may(policy: &Policy, operation: Operation, path: &str) -> bool {
    let (program, path) = (Path::new("/usr/bin/python3"), Path::new(path));
    policy.judge(&Request { program, operation, path, arguments: Arguments::default() }).allowed
}

const EXAMPLE: &str = r#"
default = "deny"
directory = "work"
network = { tcp-connect = [443, 80], tcp-bind = [8080] }
unix-sockets = "none"
devices = ["null", "urandom"]

[files]
"/usr" = "read+exec"
"/work/src" = "all"
"/work/src/.git" = "read"
"out" = ["lookup", "write", "create"]
"/tmp/*.{log,txt}" = "write"

[[rule]]
deny = ["unlink", "rename"]
path = ["/work/src", "/work/out/*.log"]
program = "/usr/bin/python3"

[[rule]]
allow = ["@small", "getattr"]
file = "bytes:/a\\xff"
program = "@tools"

[roles.programs]
tools = ["python3", "/opt/*/bin/*"]
[roles.operations]
small = ["lookup", { operation = "read", arguments = { length = 100, offset = "*" } }]

[environment]
keep = ["PATH", "HOME"]
set = { LANG = "C" }

[limits]
cpu-seconds = "5m"
cpus = 1.5
memory = "512M"
process-memory = "1G"
open-files = 64
"#;

#[test]
fn an_example_with_everything_in_it_is_understood() {
    let policy = read(EXAMPLE).unwrap();
    assert!(may(&policy, Operation::Exec, "/usr/bin/x") && !may(&policy, Operation::Write, "/usr/bin/x"));
    assert!(may(&policy, Operation::Write, "/work/src/a") && !may(&policy, Operation::Write, "/work/src/.git/a"));
    assert!(!may(&policy, Operation::Unlink, "/work/src/a"));
    assert!(may(&policy, Operation::Create, "/base/out/a") && !may(&policy, Operation::Read, "/base/out/a"));
    assert!(may(&policy, Operation::Write, "/tmp/a.log") && !may(&policy, Operation::Write, "/tmp/a.lo"));
    assert_eq!(policy.settings.limits.memory, Some(512 << 20));
    assert_eq!(policy.settings.limits.cpu_seconds, Some(300));
    assert_eq!((policy.settings.limits.cpus, policy.settings.limits.process_memory), (Some(1500), Some(1 << 30)));
    assert_eq!(policy.settings.directory.as_deref(), Some(Path::new("/base/work")));
    assert_eq!(policy.rules().len(), 9);
}

#[test]
fn a_policy_that_is_written_and_read_again_is_the_same() {
    let policy = read(EXAMPLE).unwrap();
    let text = policy.to_toml();
    let again = read(&text).unwrap();
    let lineless =
        |policy: &Policy| policy.rules().iter().map(|rule| crate::Rule { line: 0, ..rule.clone() }).collect::<Vec<_>>();
    assert_eq!(lineless(&policy), lineless(&again), "{text}");
    assert_eq!(policy.settings, again.settings, "{text}");
    assert_eq!(text, again.to_toml());
}

/// What is wrong with a text, in one line.
fn wrong(text: &str) -> String {
    read(text).expect_err(text)
}

#[test]
fn each_mistake_is_named_with_its_place_and_the_word_that_was_meant() {
    for (text, said) in [
        ("default = \"denny\"", "p.toml:1:11: \"denny\" is no word for `default`; did you mean \"deny\"?"),
        ("defualt = \"deny\"", "p.toml:1:1: \"defualt\" is no key of a policy; did you mean \"default\"?"),
        ("[files]\n\"/a\" = \"reed\"", "p.toml:2:8: \"reed\" is no group of operations; did you mean \"read\"?"),
        (
            "[files]\n\"/a\" = \"unlink\"",
            "p.toml:2:8: a word alone is a group of operations; for the operation write [\"unlink\"]",
        ),
        ("[files]\n\"/a\" = [\"unlinc\"]", "p.toml:2:9: \"unlinc\" is no operation; did you mean \"unlink\"?"),
        (
            "[files]\n\"/a\" = [\"all\"]",
            "p.toml:2:9: \"all\" is a group of operations, and stands alone and not in a list",
        ),
        (
            "[files]\n\"/a\" = 7",
            "p.toml:2:8: what may be done is a word for a group or a list of operations, and this is of type integer",
        ),
        ("[files]\n\"~/a\" = \"read\"", "p.toml:2:1: `~` and `$NAME` are not expanded"),
        ("[files]\n\"$HOME/a\" = \"read\"", "p.toml:2:1: `~` and `$NAME` are not expanded"),
        ("[files]\n\"/a/${X}\" = \"read\"", "p.toml:2:1: `~` and `$NAME` are not expanded"),
        ("[files]\n\"/a/../b\" = \"read\"", "p.toml:2:1: `..` in a path"),
        ("[files]\n\"\" = \"read\"", "p.toml:2:1: an empty path names nothing"),
        ("[files]\n\"/a\\u0000\" = \"read\"", "p.toml:2:1: no path has a NUL in it"),
        ("[files]\n\"/[a\" = \"read\"", "p.toml:2:1: error parsing glob '/[a'"),
        ("[files]\n\"bytes:/a\\\\q\" = \"read\"", "p.toml:2:1: after `bytes:` a backslash"),
        ("[[rule]]\nallow = [\"read\"]", "p.toml:1:1: a rule has one of `path`, `file`, `dir`, `tree`, `glob`"),
        ("[[rule]]\npath = \"/a\"", "p.toml:1:1: a rule has `allow`, `deny` or both"),
        ("[[rule]]\npath = \"/a\"\nallow = []", "p.toml:1:1: the rule names no operation"),
        ("[[rule]]\npath = []\nallow = \"all\"", "p.toml:2:8: a list without paths"),
        ("[[rule]]\npath = \"/a\"\nallow = \"all\"\nprogram = []", "p.toml:4:11: a list without programs"),
        (
            "[[rule]]\npath = \"/a\"\ndeny = \"write\"",
            "p.toml:3:8: a word alone is a group of operations; for the operation write [\"write\"]",
        ),
        (
            "[[rule]]\npath = \"/a\"\nallow = [\"read\"]\ndeny = [\"read\"]",
            "p.toml:1:1: the rule allows and denies read",
        ),
        ("[[rule]]\npath = \"/a\"\nallow = [\"@x\"]", "p.toml:3:10: \"x\" is no role of operations"),
        ("[[rule]]\npath = \"/a\"\nallow = \"all\"\nprogram = \"@x\"", "p.toml:4:11: \"x\" is no role of programs"),
        (
            "[[rule]]\npath = \"/a\"\nallow = [\"unlink\"]\narguments = { length = 1 }",
            "p.toml:1:1: the rule never applies",
        ),
        (
            "[[rule]]\npath = \"/a\"\nallow = [\"read\"]\narguments = { lenght = 1 }",
            "p.toml:4:15: \"lenght\" is no argument; did you mean \"length\"?",
        ),
        (
            "[[rule]]\npath = \"/a\"\nallow = [\"read\"]\narguments = { length = -1 }",
            "p.toml:4:24: length is from 0 to 18446744073709551615",
        ),
        ("network = { tcp-connect = [70000] }", "p.toml:1:28: a port is from 1 to 65535"),
        ("network = \"al\"", "p.toml:1:11: \"al\" is no word for `network`; did you mean \"all\"?"),
        ("devices = [\"sda\"]", "p.toml:1:12: \"sda\" is no device; known are null"),
        ("[limits]\nmemory = \"12X\"", "p.toml:2:10: `memory` is a number of bytes"),
        ("[limits]\nmemory = \"99999999T\"", "p.toml:2:10: `memory` is a number of bytes"),
        ("[limits]\ncpus = 0", "p.toml:2:8: `cpus` is a number of processors from 0.01"),
        ("[limits]\ncpus = \"2\"", "p.toml:2:8: `cpus` is a number of processors"),
        ("[limits]\ncpus = nan", "p.toml:2:8: `cpus` is a number of processors"),
        ("[limits]\nprocesses = 0", "p.toml:2:13: `processes` of 0 lets nothing run"),
        ("[environment]\nkeep = [\"A B\"]", "p.toml:2:9: \"A B\" is no name of a variable"),
        ("a = ", "p.toml:1:5: "),
        ("[files]\n\"/a\" = \"read\"\n\"/a\" = \"all\"", "p.toml:3:1: duplicate key"),
    ] {
        let mistakes = wrong(text);
        assert!(mistakes.contains(said), "{text}\n{mistakes}");
    }
}

#[test]
fn rules_that_contradict_each_other_are_refused_with_both_lines() {
    let text =
        "[[rule]]\nallow = [\"read\"]\npath = \"/a\"\n\n[[rule]]\ndeny = [\"read\", \"write\"]\npath = \"/a/\"\n";
    assert_eq!(wrong(text), "p.toml:5: line 1 contradicts this: it decides read on /a and all below the other way");
    let text = "[files]\n\"/a\" = \"read\"\n\"/a/.\" = \"all\"\n";
    assert!(wrong(text).starts_with("p.toml:3: line 2 contradicts this"));
    // The same at another rank is no contradiction: which one wins is said in the reference.
    read("[files]\n\"/a\" = \"all\"\n[[rule]]\ndeny = [\"read\"]\npath = \"/a\"\n").unwrap();
    read("[[rule]]\nallow = \"all\"\npath = \"/a\"\n[[rule]]\ndeny = [\"read\"]\npath = \"/a\"\nprogram = \"sh\"")
        .unwrap();
}

#[test]
fn all_mistakes_are_shown_at_once_and_no_more_than_a_hundred() {
    assert_eq!(wrong("defaul = 1\n[files]\n\"/a\" = 1\n").lines().count(), 2);
    let many: Vec<_> = (0..500).map(|number| format!("\"/{number}\" = 1")).collect();
    assert_eq!(wrong(&format!("[files]\n{}", many.join("\n"))).lines().count(), crate::MISTAKES_MAX);
}

#[test]
fn what_is_too_long_too_many_or_not_text_is_refused() {
    let long = "a".repeat(super::PATH_MAX_BYTES);
    assert!(wrong(&format!("[files]\n\"/{long}\" = \"all\"")).contains("bytes are more than the 4096"));
    assert!(read(&format!("[files]\n\"/{}\" = \"all\"", &long[1..])).is_ok());
    assert!(wrong(&format!("[files]\n\"{}\" = \"all\"", "/a".repeat(256))).contains("more than the 256 parts"));
    let huge = "#".repeat(super::TEXT_MAX_BYTES + 1);
    assert!(wrong(&huge).contains("more than the 1048576"));
    let patterns: Vec<_> = (0..=super::PATTERNS_MAX).map(|number| format!("\"/{number}*\" = \"all\"")).collect();
    assert!(wrong(&format!("[files]\n{}", patterns.join("\n"))).contains("at most 1000 patterns,"));
    let paths = vec!["\"/a\""; 50_001].join(",");
    let twice = format!(
        "[roles.operations]\nr = [\"lookup\", {{ operation = \"read\", arguments = {{ length = 1 }} }}]\n[[rule]]\nallow = [\"@r\"]\npath = [{paths}]"
    );
    assert!(wrong(&twice).contains("at most 100000 rules"));
    let mistake = Policy::from_toml("p.toml", Path::new("/"), b"default = \"\xff\"").unwrap_err();
    assert!(mistake.to_string().contains("byte 11 is not UTF-8"));
}

#[test]
fn deep_nesting_is_a_mistake_and_no_crash() {
    assert!(read(&format!("a = {}", "[".repeat(100_000))).is_err());
    assert!(read(&format!("a = {}", "{a=".repeat(100_000))).is_err());
}

#[test]
fn relative_paths_begin_at_the_base_and_nowhere_else() {
    let policy = read("[files]\n\"x/./y//\" = \"all\"\n\"l*\" = \"read\"").unwrap();
    assert_eq!(policy.rules()[0].scope, Scope::Tree("/base/x/y".into()));
    assert_eq!(policy.rules()[1].scope, Scope::Glob("/base/l*".into()));
    let mistake = Policy::from_toml("p.toml", Path::new(""), b"[files]\nx = \"all\"").unwrap_err();
    assert!(mistake.to_string().contains("no folder it could begin at"));
    let special = Policy::from_toml("p.toml", Path::new("/b[x]"), b"[files]\n\"*\" = \"all\"").unwrap();
    assert_eq!(special.allowed(Path::new("/p"), Path::new("/b[x]/y"), Arguments::default()), Operations::ALL);
}

#[test]
fn long_dotted_keys_are_a_mistake_and_no_crash() {
    let long = ".a".repeat(500_000);
    for text in [format!("a{long} = 1"), format!("[a{long}]"), format!("[[a{long}]]")] {
        assert!(read(&text).is_err());
    }
}

#[test]
fn patterns_as_long_as_allowed_are_read_and_longer_ones_refused() {
    for piece in ["?", "*", "[a-c]", "{a,b}", "{a,{b,c}}*"] {
        let pattern = piece.repeat(4000 / piece.len());
        let lines =
            |count| (0..count).map(|number| format!("\"/{number}{pattern}\" = \"all\"")).collect::<Vec<_>>().join("\n");
        let policy = read(&format!("[files]\n{}", lines(16))).expect(piece);
        assert!(!may(&policy, Operation::Read, &format!("/other/{}", "a/".repeat(1000))));
        let mistake = wrong(&format!("[files]\n{}", lines(40)));
        assert!(mistake.ends_with("a policy has at most 1000 patterns, of 65536 bytes together"), "{mistake}");
        assert_eq!(mistake.lines().count(), 1);
    }
}
