//! What is linked, into the program and its tests: its licences, and where it comes from.

use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::collections::HashSet;
use std::process::Command;

/// Permissive ones, which go with Apache-2.0.
const LICENCES: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// There is one library for TLS and cryptography: rustls on aws-lc-rs.
const OTHERS: [&str; 4] = ["native-tls", "openssl", "openssl-sys", "ring"];

fn is_permissive(licence: &str) -> bool {
    Expression::parse_mode(licence, ParseMode::LAX)
        .is_ok_and(|expression| expression.evaluate(|one| LICENCES.contains(&one.to_string().as_str())))
}

/// What is wrong with a package, as `cargo metadata` tells of it.
fn faults(package: &Value) -> Vec<String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    if !is_permissive(text("license")) {
        faults.push(format!("its licence is {:?}", text("license")));
    }
    // Without a source it is one of ours.
    if package["source"].is_null() {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let any = dependencies.filter(|dependency| dependency["path"].is_null() && dependency["req"] == "*");
        faults.extend(any.map(|dependency| format!("it takes any version of {}", dependency["name"])));
    } else if text("source") != REGISTRY {
        faults.push(format!("it comes from {}", text("source")));
    }
    faults
}

/// What cargo says of the workspace with all features, on the machines that Holdfast is for, from what `cargo fetch` brought: no test asks the network.
fn cargo(arguments: &[&str], target: &str) -> Vec<u8> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--offline", "--locked", "--all-features"]);
    for machine in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        cargo.args([target, machine]);
    }
    let output = cargo.output().expect("cargo");
    assert!(output.status.success(), "after `cargo fetch`: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn what_is_linked_is_permissive_and_comes_from_the_registry() {
    let listed = cargo(&["metadata", "--format-version=1"], "--filter-platform");
    let listed: Value = serde_json::from_slice(&listed).expect("JSON");
    let packages = listed["packages"].as_array().expect("packages");
    assert!(packages.len() > 300, "{} packages", packages.len());
    let all = packages.iter().flat_map(|package| {
        faults(package).into_iter().map(|fault| format!("{} {}: {fault}", package["name"], package["version"]))
    });
    assert_eq!(all.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn one_library_is_linked_for_cryptography() {
    // Unlike the other list, this one has nothing that a feature would bring that nobody asks for.
    let tree = String::from_utf8(cargo(&["tree", "--workspace", "--prefix=none"], "--target")).expect("text");
    let names: HashSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains("aws-lc-rs") && names.len() > 300, "{} packages", names.len());
    assert_eq!(OTHERS.into_iter().filter(|name| names.contains(name)).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn what_may_not_be_linked_is_found() {
    for licence in ["MIT/Apache-2.0", "(MIT OR GPL-3.0-only) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception"] {
        assert!(is_permissive(licence), "{licence}");
    }
    for licence in ["", "GPL-3.0-only", "MIT AND AGPL-3.0-only", "nonsense", "Apache-2.0 WITH GCC-exception-3.1"] {
        assert!(!is_permissive(licence), "{licence}");
    }
    let package = |source: Value, req: &str| {
        let dependencies = [serde_json::json!({ "name": "other", "req": req })];
        serde_json::json!({ "license": "MIT", "source": source, "dependencies": dependencies })
    };
    assert_eq!(faults(&package(Value::Null, "^1")).len(), 0);
    assert_eq!(faults(&package(REGISTRY.into(), "*")).len(), 0);
    assert_eq!(faults(&package(Value::Null, "*")).len(), 1);
    assert_eq!(faults(&package("git+https://example.org/git".into(), "^1")).len(), 1);
}
