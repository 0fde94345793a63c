//! Ten thousand random system calls of real programs in random trees under random policies, each of which must end as a plain reading of docs/policy.md says.
//!
//! A seed makes a tree, a policy in TOML and a script for two programs, one of which executes the other. Every call would succeed if nobody forbade it, so it
//! ends well where all that it asks for is allowed, and with `EACCES` (`EXDEV` where a name would gain something) where not. The tree at the end must be the
//! one that the allowed calls make. `HOLDFAST_SEED` runs one seed alone.

mod oracle;
mod script;
mod tree;

use crate::support::{folder, host, run_with};
use holdfast_broker::Options;
use holdfast_policy::{Operation, Policy};
pub(super) use holdfast_testkit::rng::Dice;
use oracle::{PROGRAMS, Rules};
use script::{CALLS, Script};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Sandboxes, and calls that each of the two programs makes in one.
const SANDBOXES: u64 = 200;
const CALLS_OF_ONE: usize = 25;

/// What the programs themselves need, whatever the rules about the tree are.
const MACHINE: [&str; 7] = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev"];

/// How often each call ended well and badly.
type Ends = BTreeMap<&'static str, [u32; 2]>;

/// A policy that can be read: rules that contradict each other are mistakes, and thrown again.
fn policy(dice: &mut Dice, root: &str, tools: &str) -> (Rules, Policy, String) {
    loop {
        let rules = Rules::random(dice, root);
        if !rules.refuse() {
            continue;
        }
        let mut text = rules.head();
        for place in MACHINE.iter().copied().chain([tools]).filter(|_| !rules.allows_by_default) {
            let _ = writeln!(text, "[[rule]]\nallow = \"all\"\npath = \"{place}\"");
        }
        text += &rules.written();
        match Policy::from_toml("random.toml", Path::new("/"), text.as_bytes()) {
            Ok(policy) => return (rules, policy, text),
            Err(mistakes) => assert!(mistakes.to_string().contains("contradict"), "{mistakes}\n{text}"),
        }
    }
}

fn one_sandbox(seed: u64, tools: &Path, ends: &mut Ends) {
    let mut dice = Dice::new(seed);
    let place = folder();
    let root = place.path().to_str().expect("a temporary folder has a plain name").to_owned();
    let (rules, policy, text) = policy(&mut dice, &root, tools.to_str().expect("a plain name"));
    let tree = tree::Tree::random(&mut dice, &root);
    tree.make();
    let mut script = Script::new(tree, &rules);
    let programs = PROGRAMS.map(|name| format!("{}/{name}", tools.display()));
    for program in &programs {
        script.add(&mut dice, program, CALLS_OF_ONE);
    }
    let mut sandbox = host([&programs[0], "-S", "-c", &script.text(&programs)]);
    sandbox.environment.push(("PYTHONHOME".into(), "/usr".into()));
    let options = Options { arguments: vec![Operation::Mkdir, Operation::Setattr], ..Options::default() };
    let done = run_with(Arc::new(policy), sandbox, options);
    let story = || format!("HOLDFAST_SEED={seed}\n{text}\n{}\n{}", script.told(), done.said);
    assert!(done.outcome.success(), "{:?}\n{}", done.outcome, story());
    let answers: Vec<_> = done.said.lines().collect();
    assert_eq!(answers.len(), script.cases.len(), "{}", story());
    for (number, (case, answer)) in script.cases.iter().zip(answers).enumerate() {
        assert_eq!(answer, case.expected, "call {number}: {}, which asks for {:?}\n{}", case.what, case.asks, story());
        ends.entry(case.name).or_default()[usize::from(case.expected != "ok")] += 1;
    }
    assert_eq!(tree::Tree::found(&root), script.tree, "the tree at the end\n{}", story());
    assert_eq!(done.counters.killed, 0, "{}", story());
}

#[test]
fn ten_thousand_random_calls_end_as_a_plain_reading_of_the_rules_says() {
    let tools = folder();
    std::fs::set_permissions(tools.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    for name in PROGRAMS {
        std::fs::copy("/usr/bin/python3", tools.path().join(name)).expect("a copy of a program");
    }
    let one = std::env::var("HOLDFAST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut ends = Ends::new();
    for seed in one.map_or(0..SANDBOXES, |seed| seed..seed + 1) {
        one_sandbox(seed, tools.path(), &mut ends);
    }
    let calls: u32 = ends.values().flatten().sum();
    println!("{calls} calls, well and badly: {ends:?}");
    if one.is_none() {
        assert_eq!(calls, 10_000);
        // Every kind of call is made often, and ends both ways, so the test can fail for each.
        for name in CALLS {
            assert!(ends.get(name).is_some_and(|ends| ends.iter().all(|count| *count >= 20)), "{name}: {ends:?}");
        }
    }
}
