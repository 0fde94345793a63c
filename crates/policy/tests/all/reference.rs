//! The examples of docs/policy.md are policies, and sound ones.

use holdfast_policy::{ARGUMENTS, GROUPS, Operation, Policy, check};
use std::path::Path;

const REFERENCE: &str = include_str!("../../../../docs/policy.md");

fn examples() -> impl Iterator<Item = &'static str> {
    REFERENCE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next())
}

#[test]
fn every_example_is_a_policy_without_mistakes_or_oddities() {
    assert_eq!(examples().count(), 8);
    for example in examples() {
        let report = check("docs/policy.md", Path::new("/base"), example.as_bytes());
        assert!(report.is_clean(), "{report}\n{example}");
    }
}

#[test]
fn the_example_of_a_function_is_a_view() {
    let example = examples().find(|example| example.contains("/function")).unwrap();
    let policy = Policy::from_toml("p", Path::new("/"), example.as_bytes()).unwrap();
    assert_eq!(policy.as_view().unwrap().len(), 6);
}

#[test]
fn every_operation_group_and_argument_is_in_the_reference() {
    let names = Operation::ALL.iter().map(|operation| operation.name()).chain(ARGUMENTS.map(|(name, _)| name));
    for name in names.filter(|name| !matches!(*name, "start" | "end")) {
        assert!(REFERENCE.contains(&format!("`{name}`")) || REFERENCE.contains(&format!("`{name} ")), "{name}");
    }
    for (word, _) in GROUPS {
        assert!(REFERENCE.contains(&format!("| `\"{word}\"` |")), "{word}");
    }
}
