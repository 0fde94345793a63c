//! A second reading of docs/policy.md, as slow and plain as it can be: every rule is asked whether it fits and how well, and the best one decides.

use crate::random::{Dice, PROGRAMS};
use holdfast_policy::{Decision, Judge, Operation, Policy, Request, Rule, Scope};
use holdfast_testkit::pattern::{name_fits, parts_fit};
use std::path::Path;

/// How well a rule fits: kind of place, depth of the place, program, arguments, form, order.
type Fit = (u8, usize, u8, usize, bool, usize);

fn split(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

fn place(scope: &Scope, path: &Path) -> Option<(u8, usize)> {
    match scope {
        Scope::Exact(at) => (at == path).then_some((3, 0)),
        Scope::Tree(at) => path.starts_with(at).then(|| (0, depth(at))),
        Scope::Below(at) => (path.starts_with(at) && at != path).then(|| (0, depth(at))),
        Scope::Glob(pattern) => {
            let parts = split(pattern);
            let literal = parts.iter().take(parts.len() - 1).take_while(|part| !part.contains(['*', '?'])).count();
            parts_fit(&parts, &split(path.to_str().unwrap())).then_some((1, literal))
        }
    }
}

/// How exactly a rule names a program; nothing where it does not.
fn program(rule: &Rule, program: &Path) -> Option<u8> {
    let Some(programs) = &rule.programs else { return Some(0) };
    let name = program.file_name().unwrap().to_str().unwrap();
    let fits = |text: &String| match text.as_str() {
        literal if literal == program.to_str().unwrap() => Some(3),
        literal if literal == name => Some(2),
        pattern if pattern.starts_with('/') => {
            parts_fit(&split(pattern), &split(program.to_str().unwrap())).then_some(1)
        }
        pattern => name_fits(pattern.as_bytes(), name.as_bytes()).then_some(1),
    };
    programs.written().iter().filter_map(fits).max()
}

fn arguments(rule: &Rule, request: &Request<'_>) -> Option<usize> {
    let (wanted, given) = (&rule.conditions, &request.arguments);
    let named = [
        wanted.length.map(|wanted| Some(wanted) == given.length),
        wanted.mode.map(|wanted| Some(wanted) == given.mode),
        wanted.offset.map(|wanted| Some(wanted) == given.offset),
    ];
    let named: Vec<bool> = named.into_iter().flatten().collect();
    named.iter().all(|same| *same).then_some(named.len())
}

fn fit(order: usize, rule: &Rule, request: &Request<'_>) -> Option<(Fit, bool)> {
    let allow = rule.allow.has(request.operation);
    if !allow && !rule.deny.has(request.operation) {
        return None;
    }
    let (kind, depth) = place(&rule.scope, request.path)?;
    let fit = (kind, depth, program(rule, request.program)?, arguments(rule, request)?, !rule.entry, order);
    Some((fit, allow))
}

/// Whether a folder lies on the way to something the program is allowed.
fn on_the_way(policy: &Policy, request: &Request<'_>) -> bool {
    let leads = |rule: &Rule| {
        let under = match &rule.scope {
            Scope::Exact(at) | Scope::Tree(at) => at.starts_with(request.path) && at != request.path,
            Scope::Below(at) => at.starts_with(request.path),
            Scope::Glob(_) => rule.scope.folder().starts_with(request.path),
        };
        under && !rule.allow.is_empty() && program(rule, request.program).is_some()
    };
    policy.implies_ways()
        && matches!(request.operation, Operation::Lookup | Operation::Getattr)
        && policy.rules().iter().any(leads)
}

/// What docs/policy.md says to a request.
pub(crate) fn decide(policy: &Policy, request: &Request<'_>) -> bool {
    let fits = policy.rules().iter().enumerate().filter_map(|(order, rule)| fit(order, rule, request));
    let best = fits.max();
    match best {
        Some(((3, ..), allow)) => allow,
        _ if on_the_way(policy, request) => true,
        Some((_, allow)) => allow,
        None => policy.default() == Decision::Allow,
    }
}

#[test]
fn ten_thousand_random_decisions_are_those_of_the_plain_reading() {
    let (mut decisions, mut allowed) = (0, 0);
    for seed in 0..1000 {
        let mut dice = Dice::new(seed);
        let policy = dice.policy();
        for _ in 0..20 {
            let (path, program) = (dice.path(), dice.one(&PROGRAMS));
            let arguments = dice.arguments();
            let operation = dice.one(&Operation::ALL);
            let request = Request { program: Path::new(program), operation, path: &path, arguments };
            let expected = decide(&policy, &request);
            let verdict = policy.judge(&request);
            let rules = policy.describe();
            assert_eq!(verdict.allowed, expected, "seed {seed}, {request:?}, {verdict:?}, {rules:#?}");
            assert!(verdict.allowed || policy.decides(operation), "{operation:?} was refused, seed {seed}");
            let all = policy.allowed(request.program, &path, arguments);
            assert_eq!(all.has(operation), verdict.allowed, "seed {seed}, {request:?}, {all}, {rules:#?}");
            decisions += 1;
            allowed += u32::from(expected);
        }
    }
    assert_eq!(decisions, 20_000);
    // The world is such that both answers are common, so the test can fail.
    assert!((5_000..15_000).contains(&allowed), "{allowed}");
}
