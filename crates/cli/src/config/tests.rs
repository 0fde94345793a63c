//! What people write, and what they are told.

use super::*;

fn from_text(text: &str, variables: &[(&str, &str)]) -> Result<Merged> {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("holdfast.toml");
    std::fs::write(&path, text).expect("written");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    load_with(Some(&path), None, Flags::default(), variables)
}

fn message(text: &str, variables: &[(&str, &str)]) -> String {
    from_text(text, variables).err().expect("is refused").to_string()
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let temp = tempfile::tempdir().expect("a folder");
    let path = temp.path().join("holdfast.toml");
    std::fs::write(&path, "listen = [\"127.0.0.1:1\"]\n[limits]\nidle_timeout_s = 7\nstall_timeout_s = 8\n")
        .expect("written");
    let mut flags = Flags::default();
    flags.set("listen", Some(vec!["127.0.0.1:3".to_owned()]));
    let variables = [
        ("HOLDFAST_LISTEN", "127.0.0.1:2"),
        ("HOLDFAST_LIMITS__STALL_TIMEOUT_S", "9"),
        ("HOLDFAST_BIN", "x"),
        ("HOME", "/root"),
    ];
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    let merged = load_with(Some(&path), None, flags, variables).expect("loads");
    assert_eq!(merged.config.listen, ["127.0.0.1:3"]);
    assert_eq!((merged.config.limits.idle_timeout_s, merged.config.limits.stall_timeout_s), (7, 9));

    let settings = merged.settings();
    let origin = |key: &str| settings.iter().find(|setting| setting.key == key).expect(key).origin.clone();
    assert_eq!(origin("listen"), "command line");
    assert!(origin("limits.idle_timeout_s").ends_with("holdfast.toml"));
    assert_eq!(origin("limits.stall_timeout_s"), "environment variable HOLDFAST_LIMITS__STALL_TIMEOUT_S");
    assert_eq!(origin("allow_plain_http"), "default");
    assert_eq!(origin("data"), "default");
}

#[test]
fn the_file_in_the_data_directory_is_found() {
    let temp = tempfile::tempdir().expect("a folder");
    std::fs::write(temp.path().join("holdfast.toml"), "allow_plain_http = true\n").expect("written");
    let merged = load_with(None, Some(temp.path()), Flags::default(), std::iter::empty()).expect("loads");
    assert!(merged.config.allow_plain_http);
    let variables = [("HOLDFAST_DATA".to_owned(), temp.path().as_os_str().to_owned())];
    let merged = load_with(None, None, Flags::default(), variables.into_iter()).expect("loads");
    assert!(merged.config.allow_plain_http);
}

#[test]
fn an_unknown_key_names_the_nearest_wherever_it_is_written() {
    for (text, nearest) in [
        ("lisen = []\n", "listen"),
        ("[limits]\nidle_timeout = 3\n", "limits.idle_timeout_s"),
        ("idle_timeout_s = 3\n", "limits.idle_timeout_s"),
        ("[tsl]\ncert = \"x\"\n", "tls.cert"),
        ("allow_http = true\n", "allow_plain_http"),
    ] {
        let message = message(text, &[]);
        assert!(message.contains(&format!("did you mean {nearest}?")), "{message}");
        assert!(message.contains("holdfast.toml"), "{message}");
    }
    let message = message("", &[("HOLDFAST_METRIC_LISTEN", "x")]);
    assert!(
        message.contains("HOLDFAST_METRIC_LISTEN") && message.contains("did you mean metrics_listen?"),
        "{message}"
    );
}

#[test]
fn a_wrong_type_is_explained_with_its_key_and_origin() {
    let told = message("[limits]\nidle_timeout_s = \"long\"\n", &[]);
    assert!(told.contains("limits.idle_timeout_s") && told.contains("holdfast.toml"), "{told}");
    let told = message("", &[("HOLDFAST_LIMITS__IDLE_TIMEOUT_S", "long")]);
    assert!(told.contains("HOLDFAST_LIMITS__IDLE_TIMEOUT_S") && told.contains("whole number"), "{told}");
    let told = message("[log]\nformat = \"xml\"\n", &[]);
    assert!(told.contains("log.format") && told.contains("human"), "{told}");
    assert!(message("listen = [", &[]).contains("holdfast.toml"));
}

#[test]
fn the_reference_lists_every_key_and_no_other() {
    let reference = include_str!("../../../../docs/operating/configuration.md");
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(key, _)| key).collect();
    let mut known = known_keys();
    known.sort();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, known, "docs/operating/configuration.md must have one row for each key");
}
