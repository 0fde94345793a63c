#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Arguments, Policy};

fn note(learned: &mut Learned, path: &str, operation: Operation, other: Option<&str>) -> bool {
    let arguments = Arguments { other: other.map(Path::new), ..Arguments::default() };
    learned.note(&Request { program: Path::new("/bin/p"), operation, path: Path::new(path), arguments })
}

fn seen(requests: &[(&str, &[Operation])]) -> Learned {
    let mut learned = Learned::new();
    for (path, operations) in requests {
        assert!(operations.iter().all(|operation| note(&mut learned, path, *operation, None)));
    }
    learned
}

fn allowed(text: &str, path: &str) -> Operations {
    let policy =
        Policy::from_toml("p", Path::new("/"), text.as_bytes()).map_err(|mistakes| format!("{mistakes}\n{text}"));
    policy.unwrap().allowed(Path::new("/p"), Path::new(path), Arguments::default())
}

const READING: &[Operation] = &[Operation::Lookup, Operation::Read];
const MAKING: &[Operation] = &[Operation::Lookup, Operation::Create, Operation::Write];

#[test]
fn a_folder_of_files_used_alike_becomes_one_line() {
    let mut requests = vec![("/", &[Operation::Lookup][..]), ("/lib", &[Operation::Lookup]), ("/etc/passwd", READING)];
    requests.extend(["/lib/a", "/lib/b", "/lib/c", "/lib/d"].map(|path| (path, READING)));
    requests.push(("/lib/tool", &[Operation::Lookup, Operation::Exec]));
    let text = seen(&requests).to_toml(LearnOptions::default());
    let expected = "# Learned from what a program did.\ndefault = \"deny\"\n\n[files]\n# p\n\"/etc/passwd\" = \"read\"\n# p, 5 names; files used alike\n\
         \"/lib\" = \"read\"\n# p\n\"/lib/tool\" = \"read+exec\"\n";
    assert_eq!(text, expected);
}

#[test]
fn exactly_is_what_was_seen_and_nothing_else() {
    let learned = seen(&[("/d", &[Operation::Lookup, Operation::Readdir]), ("/d/a", READING), ("/d/b", READING)]);
    let text = learned.to_toml(LearnOptions { exact: true, ..LearnOptions::default() });
    assert_eq!(allowed(&text, "/d/a"), Operations::of(READING));
    assert!(!text.contains("REVIEW"), "{text}");
    assert_eq!(allowed(&text, "/d/c"), Operations::NONE);
    assert!(allowed(&text, "/d").has(Operation::Readdir) && !allowed(&text, "/d").has(Operation::Create));
}

#[test]
fn a_folder_in_which_names_are_made_may_be_written_but_not_a_home() {
    let learned = seen(&[("/home/me/w/out", MAKING), ("/home/me/.log", MAKING), ("/home/me/w/a/in", READING)]);
    let broad = ["/home".into(), "/home/me".into()];
    let text = learned.to_toml(LearnOptions { broad: &broad, ..LearnOptions::default() });
    assert_eq!(allowed(&text, "/home/me/w/other"), Operations::WRITE);
    assert_eq!(allowed(&text, "/home/me/other"), Operations::NONE);
    assert!(allowed(&text, "/home/me/.log").covers(Operations::of(MAKING)));
}

#[test]
fn names_made_in_a_folder_of_everybodys_are_a_pattern_if_they_begin_alike() {
    let shared = ["/tmp".into()];
    let options = LearnOptions { shared: &shared, ..LearnOptions::default() };
    let text = seen(&[("/tmp/cc12.s", MAKING), ("/tmp/ccab.o", MAKING)]).to_toml(options);
    assert_eq!(allowed(&text, "/tmp/ccXY.o"), Operations::WRITE);
    assert_eq!(allowed(&text, "/tmp/secret"), Operations::NONE);
    let text = seen(&[("/tmp/x1", MAKING)]).to_toml(options);
    assert!(text.contains("# Look over what is marked REVIEW") && text.contains("REVIEW: a folder"), "{text}");
    assert_eq!((allowed(&text, "/tmp/other"), text.contains("TMPDIR")), (Operations::WRITE, true));
    assert_eq!(allowed(&text, "/tmp/other/inside"), Operations::NONE);
    let text = seen(&[("/tmp/x1", MAKING), ("/tmp/y2", &[Operation::Mkdir]), ("/tmp/y2/f", MAKING)]).to_toml(options);
    assert_eq!(allowed(&text, "/tmp/other/inside"), Operations::WRITE);
}

#[test]
fn system_trees_are_lines_and_libraries_elsewhere_may_be_executed() {
    let reading: &[Operation] = &[Operation::Lookup, Operation::Read, Operation::Mmap];
    let learned = seen(&[("/usr/lib/libc.so.6", reading), ("/opt/x/libx.so", reading), ("/usr/share/w", MAKING)]);
    let system = ["/usr".into(), "/lib64".into()];
    let text = learned.to_toml(LearnOptions { system: &system, ..LearnOptions::default() });
    assert_eq!(
        (allowed(&text, "/usr/bin/x"), allowed(&text, "/lib64/x")),
        (Operations::READ_EXEC, Operations::READ_EXEC)
    );
    assert!(allowed(&text, "/opt/x/libx.so").has(Operation::Exec));
    assert!(allowed(&text, "/usr/share/w").has(Operation::Write));
}

#[test]
fn the_names_of_a_file_that_moves_are_allowed_the_same() {
    let mut learned = seen(&[("/a/f", MAKING), ("/b/f", &[Operation::Lookup, Operation::Exec])]);
    for (path, other) in [("/a/f", "/b/f"), ("/b/f", "/a/f")] {
        assert!(note(&mut learned, path, Operation::Rename, Some(other)));
    }
    for exact in [false, true] {
        let text = learned.to_toml(LearnOptions { exact, ..LearnOptions::default() });
        assert_eq!(allowed(&text, "/a/f"), allowed(&text, "/b/f"), "{text}");
    }
}

#[test]
fn a_link_shows_what_it_leads_to() {
    let mut learned = seen(&[("/data/f", READING)]);
    learned.note_link(Path::new("/home/me/f"), Path::new("/data/f"));
    learned.note_link(Path::new("/home/me/other"), Path::new("/nowhere"));
    let text = learned.to_toml(LearnOptions::default());
    assert_eq!(allowed(&text, "/home/me/f"), Operations::READ);
    assert!(!text.contains("other"), "{text}");
}

#[test]
fn more_paths_than_the_limit_are_counted_and_not_kept() {
    let mut learned = Learned::new();
    assert!(!note(&mut learned, "relative", Operation::Read, None));
    assert!((0..LEARNED_MAX).all(|number| note(&mut learned, &format!("/{number}"), Operation::Read, None)));
    assert!(!note(&mut learned, "/one-more", Operation::Read, None) && note(&mut learned, "/7", Operation::Read, None));
    assert_eq!((learned.paths(), learned.missed()), (LEARNED_MAX, 2));
    assert!(
        learned.to_toml(LearnOptions { exact: true, ..LearnOptions::default() }).contains("2 requests are not in it")
    );
}
