//! A learned policy allows what it was learned from.

use crate::random::Dice;
use holdfast_policy::{Arguments, Found, Judge, LearnOptions, Learned, Operation, Policy, Request};
use std::path::{Path, PathBuf};

/// Whatever is there at the end.
const LOOKS: [fn(&Path) -> Found; 3] = [|_| Found::Missing, |_| Found::Folder, |_| Found::File];

#[test]
fn everything_that_was_seen_is_allowed_by_the_policy_that_is_learned() {
    let mut folded = 0;
    for seed in 0..2000 {
        let mut dice = Dice::new(seed);
        let seen: Vec<(PathBuf, Operation)> = (0..dice.below(40))
            .map(|_| {
                let name = dice.below(30);
                (
                    dice.path().join(if name < 20 { format!("f{name}") } else { String::new() }),
                    dice.one(&Operation::ALL),
                )
            })
            .collect();
        let requests: Vec<_> = seen
            .iter()
            .map(|(path, operation)| Request {
                program: Path::new("/p"),
                operation: *operation,
                path,
                arguments: Arguments::default(),
            })
            .collect();
        let mut learned = Learned::new();
        assert!(requests.iter().all(|request| learned.note(request)));
        let (system, broad, shared) = (["/ab".into()], ["/a".into()], ["/b".into()]);
        let look: fn(&Path) -> Found = dice.one(&LOOKS);
        let options = LearnOptions {
            exact: dice.below(3) == 0,
            fold_at: dice.below(4),
            system: &system[..dice.below(2)],
            broad: &broad[..dice.below(2)],
            shared: &shared[..dice.below(2)],
            look,
        };
        let text = learned.to_toml(options);
        folded += usize::from(text.contains("used alike"));
        let policy =
            Policy::from_toml("p", Path::new("/"), text.as_bytes()).map_err(|mistakes| format!("{mistakes}\n{text}"));
        let policy = policy.unwrap();
        for request in &requests {
            assert!(policy.judge(request).allowed, "seed {seed}, {request:?}\n{text}");
        }
    }
    assert!(folded > 50, "{folded}");
}
