//! What `check` calls needless is needless, and what `diff` says changes is all that changes.

use crate::random::{Dice, PROGRAMS};
use holdfast_policy::{Arguments, Decision, Policy, Rule, Scope, Settings, diff};
use std::path::Path;

fn numbered(rules: Vec<Rule>) -> Vec<Rule> {
    rules.into_iter().enumerate().map(|(number, rule)| Rule { line: number + 1, ..rule }).collect()
}

fn same(one: &Policy, other: &Policy, dice: &mut Dice, said: &str) {
    for _ in 0..40 {
        let (path, program, arguments) = (dice.path(), dice.one(&PROGRAMS), dice.arguments());
        let ask = |policy: &Policy| policy.allowed(Path::new(program), &path, arguments);
        assert_eq!(ask(one), ask(other), "{}, {program}, {said}", path.display());
    }
}

#[test]
fn a_rule_that_is_never_reached_or_changes_nothing_can_be_left_out() {
    let mut needless = 0;
    for seed in 0..2000 {
        let mut dice = Dice::new(seed);
        let plain = dice.below(2) == 0;
        let rules = (0..dice.below(6)).map(|_| if plain { dice.plain_rule() } else { dice.rule() }).collect();
        let rules = numbered(rules);
        let default = dice.one(&[Decision::Allow, Decision::Deny]);
        let ways = dice.below(2) == 0;
        let policy = |rules| Policy::new(default, ways, rules, Settings::default()).unwrap();
        let whole = policy(rules.clone());
        for warning in whole.warnings("p") {
            if warning.text.starts_with("never reached") || warning.text.starts_with("changes nothing") {
                needless += 1;
                let mut fewer = rules.clone();
                fewer.remove(warning.line - 1);
                same(&whole, &policy(fewer), &mut dice, &format!("seed {seed}, {warning}, {:#?}", whole.describe()));
            }
        }
    }
    assert!(needless > 100, "{needless}");
}

#[test]
fn policies_without_a_difference_decide_the_same_and_each_difference_is_one() {
    let (mut equal, mut different) = (0, 0);
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let plain = |dice: &mut Dice| loop {
            let rule = dice.plain_rule();
            if !matches!(rule.scope, Scope::Glob(_)) {
                return rule;
            }
        };
        let rules: Vec<_> = (0..dice.below(4)).map(|_| plain(&mut dice)).collect();
        let mut changed = rules.clone();
        if !changed.is_empty() && dice.below(2) == 0 {
            let last = changed.len() - 1;
            changed.swap(0, last);
        } else {
            changed.push(plain(&mut dice));
        }
        let policy = |rules| Policy::new(Decision::Deny, true, rules, Settings::default()).unwrap();
        let (before, after) = (policy(rules), policy(changed));
        let difference = diff(&before, &after);
        if difference.is_empty() {
            equal += 1;
            same(&before, &after, &mut dice, &format!("seed {seed}"));
        }
        for change in &difference.files {
            different += 1;
            let path = if change.below { change.path.join("nobody-names-this") } else { change.path.clone() };
            let ask = |policy: &Policy| policy.allowed(Path::new("/p"), &path, Arguments::default());
            assert_eq!(ask(&after).without(ask(&before)), change.gained, "seed {seed}, {change}");
            assert_eq!(ask(&before).without(ask(&after)), change.lost, "seed {seed}, {change}");
        }
    }
    assert!(equal > 100 && different > 100, "{equal} {different}");
}
