//! A view that a policy says it is decides as the policy.

use crate::random::Dice;
use holdfast_policy::{Access, Arguments, Decision, Operations, Policy, Rule, Scope, Settings, View};
use std::path::Path;

/// A policy that is a view more often than not.
fn policy(dice: &mut Dice) -> Policy {
    let access = |dice: &mut Dice| dice.one(&Access::EVERY).operations();
    let scope = |dice: &mut Dice| match dice.below(8) {
        0 => Scope::Exact(dice.path()),
        1 => Scope::Below(dice.path()),
        _ => Scope::Tree(dice.path()),
    };
    let rule = |dice: &mut Dice| match dice.below(6) {
        0 => Rule::new(scope(dice), Operations::NONE, Operations::of(&[holdfast_policy::Operation::Exec])),
        _ => Rule::entry(scope(dice), access(dice)),
    };
    let default = dice.one(&[Decision::Allow, Decision::Deny]);
    let ways = dice.below(4) > 0;
    let rules = (0..dice.below(6)).map(|_| rule(dice)).collect();
    Policy::new(default, ways, rules, Settings::default()).unwrap()
}

#[test]
fn a_view_decides_as_its_policy_about_every_operation() {
    let mut views = 0;
    for seed in 0..3000 {
        let mut dice = Dice::new(seed);
        let policy = policy(&mut dice);
        let Ok(entries) = policy.as_view() else { continue };
        views += 1;
        let view = View::new(&entries);
        for _ in 0..20 {
            let path = dice.path();
            // What is named exactly is no folder, so nothing is below it.
            if entries.iter().any(|entry| entry.exact && path.starts_with(&entry.path) && path != entry.path) {
                continue;
            }
            let decided = policy.allowed(Path::new("/bin/sh"), &path, Arguments::default());
            assert_eq!(view.allowed(&path), decided, "seed {seed}, {path:?}, {entries:?}, {:#?}", policy.describe());
        }
    }
    // Both happen, so the test can fail.
    assert!((500..2900).contains(&views), "{views}");
}

#[test]
fn no_entry_of_a_view_can_be_left_out() {
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let Ok(entries) = policy(&mut dice).as_view() else { continue };
        let view = View::new(&entries);
        for left_out in 1..entries.len() {
            let mut fewer = entries.clone();
            let entry = fewer.remove(left_out);
            let probe = if entry.exact { entry.path.clone() } else { entry.path.join("unnamed") };
            assert_ne!(
                View::new(&fewer).allowed(&probe),
                view.allowed(&probe),
                "seed {seed}, {entry:?} of {entries:?}"
            );
        }
    }
}
