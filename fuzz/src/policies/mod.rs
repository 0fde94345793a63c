//! What says what confined programs may do: policies in TOML, and the pairs of model and policy that another system had.

use holdfast_policy::{Arguments, Mistakes, PairOptions, Policy, Subject, View, check, check_pair, diff};
use std::path::Path;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 2] = [("policy", policy), ("policy_pair", policy_pair)];

/// More rules than this are not compared with themselves, which takes each with each.
const COMPARED_MAX: usize = 30;

/// A policy in TOML: mistakes lie in the text; what is accepted, written anew, is the same; a view decides as its policy.
pub fn policy(data: &[u8]) {
    let base = Path::new("/base");
    match Policy::from_toml("p", base, data) {
        Ok(policy) => accepted(&policy),
        Err(mistakes) => refused(&mistakes, data),
    }
    let _ = check("p", base, data).to_string();
}

/// A pair, its two texts parted by the first line of `%%`: what is accepted has the same decisions in TOML.
pub fn policy_pair(data: &[u8]) {
    let at = data.windows(4).position(|window| window == b"\n%%\n");
    let (model, lines) = at.map_or((data, &b""[..]), |at| (&data[..=at], &data[at + 4..]));
    let mounted = Some(Path::new("/m"));
    for subject in [Subject::Calling, Subject::Launched(Path::new("/bin/sh"))] {
        let options = PairOptions { subject, mounted };
        match Policy::from_pair(("m", model), ("p", lines), options) {
            Ok(policy) => accepted(&policy),
            Err(mistakes) => assert!(!mistakes.0.is_empty()),
        }
        let _ = check_pair(("m", model), ("p", lines), options).to_string();
    }
}

fn accepted(policy: &Policy) {
    let text = policy.to_toml();
    // A pair's longest names may not fit once they are escaped, and its rules not into the text.
    let Ok(again) = Policy::from_toml("p", Path::new("/base"), text.as_bytes()) else {
        assert!(text.len() > 1 << 20 || policy.rules().iter().any(|rule| rule.operations().is_empty()), "{text}");
        return;
    };
    assert_eq!(again.to_toml(), text);
    assert_eq!(policy.settings, again.settings);
    if policy.rules().len() <= COMPARED_MAX {
        assert!(diff(policy, &again).is_empty(), "{text}");
    }
    if let Ok(entries) = policy.as_view() {
        let view = View::new(&entries);
        for path in
            entries.iter().map(|entry| &*entry.path).chain([Path::new("/"), Path::new("/base"), Path::new("/a/b")])
        {
            let below = entries.iter().any(|entry| entry.exact && path != entry.path && path.starts_with(&entry.path));
            assert!(
                below || view.allowed(path) == policy.allowed(Path::new("/p"), path, Arguments::default()),
                "{text}"
            );
        }
    }
}

fn refused(mistakes: &Mistakes, data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    assert!(!mistakes.0.is_empty() && mistakes.0.iter().all(|mistake| mistake.line <= lines), "{mistakes}");
}
