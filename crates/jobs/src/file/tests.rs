use super::*;
use proptest::prelude::*;
use std::fmt::Write;

const WHOLE: &str = r#"
[mail]
command = ["/usr/sbin/sendmail", "-t"]
from = "drive@example.org"

[sites.archive]
address = "sftp://sftp.example.org/data"
connections = 4
rate = "10M"
ssh-config = "ssh_config"
[sites.archive.login]
user = "ann"
identity = "id_ed25519"
[sites.archive.logins.upload]
user = "up"
password-env = "UPLOAD_PASSWORD"

[sites.drive]
address = "https://drive.example.org/lab"
plane = "quic"
login = { token-file = "/etc/token" }

[jobs.nightly]
from = ["archive:{station}/{today-1d:%Y/%j}/.", "archive@upload:x"]
to = "drive:in/{station}"
include = "*.nc"
exclude = ["*.tmp", "old/"]
exclude-regex = '^\.'
min-size = "1K"
newer-than = "7d"
cron = "30 2 * * mon-fri"
time-zone = "Europe/Berlin"
window = "22:00-06:00"
tolerance = "30m"
rate = "5M"
rate-in = [{ window = "08:00-18:00", rate = "1M" }, { window = "00:00-05:00" }]
retries = { count = 3, first = "1m" }
verify = true
delete-source = true
parallel = 2
variables = { station = ["A", "B"], n = { from = 1, to = 12, width = 2 } }
rename = "{parent}/{stem}_{1}.{extension}"
rename-match = '(\d{4})'
inbox = "in"
on-success = [{ notify = "https://example.org/hook", token-env = "HOOK" }, { command = ["/bin/true"], timeout = "5s" }]
on-failure = [{ mail = "ops@example.org" }]

[jobs.mirror]
kind = "sync"
from = "/srv/a"
to = "/srv/b"
delete = "after-success"
every = "6h"
start = 2026-01-01T06:00
active = false
run-on-start = true
"#;

fn read(text: &str) -> Result<Set> {
    Set::of(&[Loaded::parse("/etc/jobs/a.toml".into(), text)?])
}

#[test]
fn a_file_with_everything_is_read_and_written_anew_is_the_same() {
    let whole = WHOLE.replace("start = 2026-01-01T06:00", "start = \"2026-01-01T06:00\"");
    let loaded = Loaded::parse("/etc/jobs/a.toml".into(), &whole).expect("reads");
    let again = toml::to_string(&loaded.file).expect("writes");
    let again = Loaded::parse("/etc/jobs/a.toml".into(), &again).expect(&again);
    assert_eq!(loaded.file, again.file);
    let set = Set::of(&[loaded]).expect("fits");
    let job = set.job("nightly").expect("is there");
    assert_eq!((job.line, job.tolerance()), (23, Duration::from_mins(30)));
    assert!(
        set.job("nobody").is_err_and(|error| error.kind() == ErrorKind::NotFound && error.message().contains("mirror"))
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_would_be_right() {
    let job = |more: &str| format!("[jobs.j]\nfrom = 'a'\nto = 'b'\n{more}\n");
    for (text, line, says) in [
        (job("cron = '61 * * * *'"), 4, "0 to 59"),
        (job("cron = '* * * *'"), 4, "five fields"),
        (job("every = '5'"), 4, "6h"),
        (job("evry = '5h'"), 4, "every"),
        (job("time-zone = 'Mars/Base'"), 4, "Europe/Berlin"),
        (job("window = '22-6'"), 4, "06:30"),
        (job("if-exists = 'overwrite'"), 4, "replace"),
        (job("every = '1h'\ncron = '@daily'"), 1, "not both"),
        (job("delete = 'anyway'"), 1, "sync"),
        (job("parallel = 65"), 1, "1 to 64"),
        (job("include = ['[']"), 4, "pattern"),
        (job("include-regex = '('"), 4, "regular expression"),
        (job("rate = '0'"), 4, "nothing"),
        (job("rename = '{nam}'"), 1, "{nam}"),
        (job("rename-match = 'a'"), 1, "rename"),
        (job("on-success = [{ command = ['true'] }]"), 1, "whole path"),
        (job("on-success = [{ notify = 'ftp://h' }]"), 4, "https://"),
        (job("on-success = [{ mail = 'a@b' }]"), 1, "[mail]"),
        (job("on-success = [{}]"), 1, "one of"),
        (job("variables = { today = 1 }"), 1, "today"),
        (job("variables = { a = { from = 2, to = 1 } }"), 4, "range"),
        (job("variables = { a = 1.5 }"), 4, "range"),
        ("[jobs.j]\nfrom = 'x:a'\nto = 'b'".into(), 1, "[sites.x]"),
        ("[jobs.j]\nfrom = 'a'\nto = '{who}'".into(), 1, "{who}"),
        ("[jobs.j]\nfrom = []\nto = 'b'".into(), 1, "names nothing"),
        ("\n[jobs.j]\nto = 'b'".into(), 2, "from"),
        ("[sites.s]\naddress = 'sftp://h'\npassword = 'hush'".into(), 3, "password-file"),
        ("[sites.s]\naddress = 'sftp://h'\nlogin = { token = 'hush' }".into(), 3, "token-env"),
        ("[sites.s]\naddress = 'sftp://ann:hush@h/'".into(), 1, "password"),
        ("[sites.'a b']\naddress = '/x'".into(), 1, "letters"),
        ("jobs = 3".into(), 1, "map"),
        ("[jobs.j\n".into(), 1, ""),
    ] {
        let error = read(&text).expect_err(&text);
        let said = error.message();
        assert!(said.starts_with(&format!("/etc/jobs/a.toml:{line}: ")) && said.contains(says), "{text}\n{said}");
        assert!(!said.contains("hush"), "{said}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn files_share_their_sites_and_no_two_have_a_job_of_one_name() {
    let one = Loaded::parse("/a/one.toml".into(), "[sites.s]\naddress = '/x'").expect("reads");
    let two = Loaded::parse("/b/two.toml".into(), "\n[jobs.j]\nfrom = 's:a'\nto = 's:b'").expect("reads");
    assert!(Set::of(&[one.clone(), two.clone()]).is_ok());
    assert!(Set::of(std::slice::from_ref(&two)).is_err());
    let mut three = two.clone();
    three.path = "/c/three.toml".into();
    let error = Set::of(&[one, two, three]).expect_err("twice");
    assert!(error.message().starts_with("/c/three.toml:2") && error.message().contains("/b/two.toml:2"), "{error}");
}

#[test]
fn a_file_that_is_too_large_missing_or_no_text_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.toml");
    assert_eq!(Loaded::read(&path).expect_err("missing").kind(), ErrorKind::NotFound);
    std::fs::write(&path, vec![b'#'; FILE_BYTES_MAX + 1]).expect("writes");
    assert_eq!(Loaded::read(&path).expect_err("large").kind(), ErrorKind::TooLarge);
    std::fs::write(&path, b"\xff").expect("writes");
    assert!(Loaded::read(&path).is_err_and(|error| error.message().contains("UTF-8")));
}

proptest! {
    #[test]
    fn what_is_accepted_is_the_same_written_anew(
        from in "[a-z/]{1,8}(\\{today(-[1-9]d)?(:%[Yjmd])?\\})?", to in "/[a-z]{1,8}", name in "[a-zA-Z0-9_][a-zA-Z0-9_-]{0,10}",
        cron in prop::option::of("[0-9*]{1,2} [0-9*] \\* \\* [0-6*]"), every in prop::option::of("[1-9][smhdw]"), window in prop::option::of("[0-2][0-9]:[0-5]0-0[0-9]:[0-5]0"),
        numbers in (0i64..20, 0i64..20, 0usize..5), texts in prop::collection::vec("[^\\x00-\\x1f]{0,6}", 0..3), flags in any::<[bool; 4]>(),
    ) {
        let quote = |text: &str| toml::Value::from(text).to_string();
        let mut text = format!("[jobs.{name}]\nfrom = {}\nto = {}\n", quote(&from), quote(&to));
        if let Some(said) = &cron {
            writeln!(text, "cron = {}", quote(said)).expect("writes");
        }
        if let Some(said) = &every {
            writeln!(text, "every = {}", quote(said)).expect("writes");
        }
        if let Some(said) = &window {
            writeln!(text, "window = {}", quote(said)).expect("writes");
        }
        writeln!(text, "verify = {}\nchecksum = {}\nupdate = {}\nactive = {}", flags[0], flags[1], flags[2], flags[3]).expect("writes");
        writeln!(text, "include = {}", toml::Value::from(texts.clone())).expect("writes");
        let (from, to, width) = numbers;
        writeln!(text, "variables = {{ v = {{ from = {from}, to = {to}, width = {width} }}, w = {} }}", toml::Value::from(texts)).expect("writes");
        if let Ok(loaded) = Loaded::parse("/a.toml".into(), &text) {
            let again = toml::to_string(&loaded.file).expect("writes");
            let again = Loaded::parse("/a.toml".into(), &again).expect(&again);
            prop_assert_eq!(loaded.file, again.file);
        }
    }

    #[test]
    fn no_text_panics(at in 0..WHOLE.len(), length in 0..40usize, with in ".{0,20}") {
        let from = WHOLE.floor_char_boundary(at);
        let to = WHOLE.floor_char_boundary((from + length).min(WHOLE.len()));
        let _ = read(&format!("{}{with}{}", &WHOLE[..from], &WHOLE[to..]));
        let _ = read(&with);
    }
}

#[test]
fn every_example_of_the_users_page_is_right() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/jobs.md")).expect("a page");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() > 10, "{}", examples.len());
    for example in examples {
        read(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}
