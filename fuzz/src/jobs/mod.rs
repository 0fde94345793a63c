//! What jobs are given: job files, lines of cron, and files of the tool that jobs are imported from.

use holdfast_jobs::Set;
use holdfast_jobs::file::Loaded;
use holdfast_jobs::import::import;
use holdfast_jobs::schedule::{Cron, Period, Window};
use holdfast_jobs::template::Template;

/// A target with its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here, by name.
pub const TARGETS: [Target; 3] = [("jobs", jobs), ("cron", cron), ("pushpull", pushpull)];

/// 2000-01-01, from where due times are asked for.
const BEGIN: &str = "2000-01-01T00:00:00Z";

/// A job file: what is accepted, written anew, is the same.
pub fn jobs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(loaded) = Loaded::parse("/jobs.toml".into(), text) else { return };
    let again = toml::to_string(&loaded.file).expect("what was read can be written");
    let again = Loaded::parse("/jobs.toml".into(), &again).expect("what was written can be read");
    assert_eq!(loaded.file, again.file);
    let _ = Set::of(&[loaded]);
}

/// Lines of cron, periods, windows and templates: due times increase.
pub fn cron(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cron) = Cron::parse(text) {
        let due = cron.upcoming(BEGIN.parse().expect("a time"), 5);
        assert!(!due.is_empty() && due.windows(2).all(|pair| pair[0] < pair[1]));
    }
    let _ = (Period::parse(text), Window::parse(text));
    if let Ok(template) = Template::parse(text) {
        assert_eq!(template.text(), text);
    }
}

/// Files of OODT's pushpull: what comes out can be read as a job file.
pub fn pushpull(data: &[u8]) {
    if let Ok(text) = import(&[("x.xml".into(), data.to_vec())]) {
        Loaded::parse("/jobs.toml".into(), &text).expect("what was made can be read");
    }
}
