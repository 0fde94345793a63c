//! Writing a policy in TOML and reading it again changes no decision.

use crate::random::{Dice, PROGRAMS};
use holdfast_policy::{Judge, Operation, Policy, Request};
use std::path::Path;

#[test]
fn a_written_policy_decides_as_the_one_it_was_made_of() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let policy = dice.policy();
        let text = policy.to_toml();
        // Random rules may contradict each other, which only a text is refused for.
        let Ok(again) = Policy::from_toml("p.toml", Path::new("/"), text.as_bytes()) else { continue };
        assert_eq!(again.to_toml(), text, "seed {seed}");
        for _ in 0..50 {
            let (path, program, operation) = (dice.path(), dice.one(&PROGRAMS), dice.one(&Operation::ALL));
            let request = Request { program: Path::new(program), operation, path: &path, arguments: dice.arguments() };
            let (one, other) = (policy.judge(&request), again.judge(&request));
            assert_eq!(one.allowed, other.allowed, "seed {seed}, {request:?}\n{text}");
        }
    }
}

#[test]
fn nearly_every_random_policy_can_be_read_again() {
    let read = |seed: &u64| {
        let text = Dice::new(*seed).policy().to_toml();
        let again = Policy::from_toml("p.toml", Path::new("/"), text.as_bytes());
        let known = |text: &str| text.contains("contradicts") || text.contains("never applies");
        let mistakes = again.err().map_or_else(Vec::new, |mistakes| mistakes.0);
        assert!(mistakes.iter().all(|mistake| known(&mistake.text)), "{mistakes:?}\n{text}");
        mistakes.is_empty()
    };
    let good = (0..300).filter(|seed| read(seed)).count();
    assert!(good > 150, "{good}");
}
