//! What the program under test says of confined programs.

use crate::Outcome;
use holdfast_testkit::confined::{Ground, until};
use serde_json::Value;

/// What it says in JSON.
pub fn json(ground: &Ground, arguments: &[&str]) -> Outcome<Value> {
    Ok(serde_json::from_slice(&ground.said(&[arguments, &["--json"]].concat())?)?)
}

/// The one program that is under way with these words in its command.
pub fn under_way(ground: &Ground, words: &str) -> Outcome<Option<Value>> {
    let all = json(ground, &["run", "ps"])?;
    let is_it = |it: &&Value| it["command"].to_string().contains(words);
    Ok(all.as_array().and_then(|all| all.iter().find(is_it)).cloned())
}

/// The number of one. It is listed a moment after it has begun.
pub fn id_of(ground: &Ground, words: &str) -> Outcome<String> {
    until(words, || Ok(under_way(ground, words)?.is_some()))?;
    Ok(under_way(ground, words)?.ok_or("it is not listed any more")?["id"].to_string())
}

/// What is said of each limit of a policy, whether or not all are held.
pub fn explained(ground: &Ground, policy: &str) -> Outcome<Vec<Value>> {
    let path = ground.path(policy).display().to_string();
    let output = ground.command(&["policy", "explain", &path, "--json"]).output()?;
    let told: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?;
    Ok(told["limits"].as_array().cloned().ok_or("no limits")?)
}

/// Whether a limit is held exactly.
pub fn held(limit: &Value) -> bool {
    limit["exact"] == true
}
