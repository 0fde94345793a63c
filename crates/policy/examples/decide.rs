//! How long a decision takes: `cargo run --release -p holdfast-policy --example decide`.
//!
//! Policies of 0 to 1,024 rules for folders, of 32 patterns among them, and of 1,024 for one place but different programs (the worst there is), each asked about paths
//! seven folders deep. Prints nanoseconds for one decision, the fastest of five rounds.

use holdfast_policy::{
    Arguments, Decision, Judge, Operation, Operations, Policy, Programs, Request, Rule, Scope, Settings,
};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUND: u32 = 200_000;

fn main() {
    for rules in [0, 32, 128, 1024] {
        let trees = (0..rules).map(|number| tree(format!("/home/user/work/{number}/src")));
        show(&format!("{rules} folders"), trees.collect());
    }
    let trees = (0..992).map(|number| tree(format!("/home/user/work/{number}/src")));
    let globs =
        (0..32).map(|number| Rule::entry(Scope::Glob(format!("/home/user/work/**/*.{number}")), Operations::READ));
    show("992 folders and 32 patterns", trees.chain(globs).collect());
    let place = || Scope::Tree("/home/user/work".into());
    let by =
        |number| Rule::new(place(), Operations::ALL, Operations::NONE).by(Programs::at(format!("/usr/bin/{number}")));
    show("1024 programs in one place", (0..1024).map(by).collect());
}

fn tree(path: String) -> Rule {
    Rule::entry(Scope::Tree(path.into()), Operations::ALL)
}

fn show(name: &str, rules: Vec<Rule>) {
    let Ok(policy) = Policy::new(Decision::Deny, true, rules, Settings::default()) else { return };
    let paths: Vec<PathBuf> = (0..64).map(|number| format!("/home/user/work/{number}/src/main/x.rs").into()).collect();
    let round = |_| {
        let begin = Instant::now();
        for path in paths.iter().cycle().take(ROUND as usize) {
            let program = Path::new("/usr/bin/other");
            let request = Request { program, operation: Operation::Read, path, arguments: Arguments::default() };
            black_box(policy.judge(black_box(&request)));
        }
        begin.elapsed().as_nanos() / u128::from(ROUND)
    };
    println!("{name}: {} ns", (0..5).map(round).min().unwrap_or(0));
}
