//! Listings: MLSD (RFC 3659 section 7), and what LIST shows, which no standard says: as `ls -l` does, or as DOS did.

use holdfast_base::limits::FILE_BYTES_MAX;
use holdfast_base::{Error, ErrorKind, NodeName, Result};
use regex::Regex;
use std::sync::LazyLock;
use time::{Date, Month, PrimitiveDateTime, Time};

/// What a server says of something in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: NodeName,
    /// What it is.
    pub what: What,
    /// Bytes of a file.
    pub size: u64,
    /// When it changed, as the server wrote it: `YYYYMMDDHHMMSS` in UTC, with a fraction perhaps.
    pub modified: Option<String>,
    /// What the server knows it by, whatever its name is.
    pub unique: Option<String>,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// What something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, and where to, if the server says.
    Link(Option<String>),
    /// A device, a FIFO and the like.
    Other,
}

/// What a line says: something, nothing of interest, or a name with why it cannot be carried.
pub type Line = Result<Option<Entry>, (String, Error)>;

/// A line of MLSD, or of the reply to MLST, whose name may be a path.
pub fn facts(line: &[u8]) -> Line {
    let (facts, name) = match line.iter().position(|byte| *byte == b' ') {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => return Err((shown(line), Error::new(ErrorKind::Unsupported, "the server's listing is no MLSD"))),
    };
    let facts = String::from_utf8_lossy(facts);
    let mut entry = (What::Other, None, None, None, None);
    for fact in facts.split(';') {
        let Some((key, value)) = fact.split_once('=') else { continue };
        match key.to_ascii_lowercase().as_str() {
            "type" => match value.to_ascii_lowercase().as_str() {
                "cdir" | "pdir" => return Ok(None),
                "file" => entry.0 = What::File,
                "dir" => entry.0 = What::Folder,
                kind => entry.0 = of_unix(kind, value),
            },
            "size" => entry.1 = value.parse().ok(),
            "modify" => entry.2 = moment(value).map(|_| value.to_owned()),
            "unique" => entry.3 = Some(value.to_owned()),
            "unix.mode" => entry.4 = u32::from_str_radix(value, 8).ok().map(|mode| mode & 0o777),
            _ => {}
        }
    }
    let (what, size, modified, unique, mode) = entry;
    made(name, what, size, modified).map(|entry| entry.map(|entry| Entry { unique, mode, ..entry }))
}

/// `OS.unix=slink:TARGET` and its like, of which the case of the target counts.
fn of_unix(kind: &str, value: &str) -> What {
    if !kind.starts_with("os.unix=s") {
        return What::Other;
    }
    What::Link(value.split_once(':').map(|(_, to)| to.to_owned()).filter(|to| !to.is_empty()))
}

static UNIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let month = "(?:[A-Za-z]{3}\\s+\\d{1,2}|\\d{1,2}\\s+[A-Za-z]{3}|\\d{4}-\\d\\d-\\d\\d)";
    let day = format!("{month}\\s+(?:\\d{{1,2}}:\\d\\d|\\d{{4}})");
    Regex::new(&format!("^([-dlbcps])[-rwxsStTlL]{{9}}[+.@]?\\s+(?:\\d+\\s+)?(?:\\S.*?\\s+)??(\\d+)\\s+{day} (.+)$"))
        .ok()
});

static DOS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        "^(?:\\d\\d-\\d\\d-\\d{2,4}|\\d{4}-\\d\\d-\\d\\d)\\s+\\d\\d:\\d\\d(?:[AP]M)?\\s+(<DIR>|\\d+)\\s+(\\S.*)$",
    )
    .ok()
});

/// A line of LIST. Its times have no zone and no seconds, so nothing is made of them.
pub fn listed(line: &[u8]) -> Line {
    let bad = || (shown(line), Error::new(ErrorKind::Unsupported, "the server lists in a form that is not known"));
    let text = std::str::from_utf8(line).map_err(|_| (shown(line), Error::invalid("its name is not UTF-8")))?;
    if text.trim().is_empty() || text.strip_prefix("total ").is_some_and(|count| count.trim().parse::<u64>().is_ok()) {
        return Ok(None);
    }
    let part =
        |found: &regex::Captures<'_>, at: usize| found.get(at).map_or(String::new(), |part| part.as_str().into());
    if let Some(found) = UNIX.as_ref().and_then(|form| form.captures(text)) {
        let (kind, size, name) = (part(&found, 1), part(&found, 2), part(&found, 3));
        let (name, what) = match kind.as_str() {
            "-" => (name.as_str(), What::File),
            "d" => (name.as_str(), What::Folder),
            "l" => match name.split_once(" -> ") {
                Some((name, to)) => (name, What::Link(Some(to.to_owned()))),
                None => (name.as_str(), What::Link(None)),
            },
            _ => (name.as_str(), What::Other),
        };
        return made(name.as_bytes(), what, size.parse().ok(), None);
    }
    let found = DOS.as_ref().and_then(|form| form.captures(text)).ok_or_else(bad)?;
    let (size, name) = (part(&found, 1), part(&found, 2));
    let what = if size == "<DIR>" { What::Folder } else { What::File };
    made(name.as_bytes(), what, size.parse().ok(), None)
}

fn made(name: &[u8], what: What, size: Option<u64>, modified: Option<String>) -> Line {
    let refused = |error| (shown(name), error);
    // Some servers write a path, of which the last part is the name.
    let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    if matches!(last, b"." | b"..") {
        return Ok(None);
    }
    let text = std::str::from_utf8(last).map_err(|_| refused(Error::invalid("its name is not UTF-8")))?;
    let name = NodeName::new(text).map_err(refused)?;
    let size = match (&what, size) {
        (What::File, None) => {
            return Err(refused(Error::new(ErrorKind::Unsupported, "the server does not say how large it is")));
        }
        (What::File, Some(size)) if size > FILE_BYTES_MAX => {
            return Err(refused(Error::new(ErrorKind::TooLarge, format!("the server says that it has {size} bytes"))));
        }
        (What::File, Some(size)) => size,
        _ => 0,
    };
    Ok(Some(Entry { name, what, size, modified, unique: None, mode: None }))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(300).collect()
}

/// `YYYYMMDDHHMMSS[.fraction]` in UTC, in nanoseconds since 1970 (RFC 3659 section 2.3).
pub fn moment(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 14 || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let number = |from: usize, to: usize| whole.get(from..to)?.parse::<u8>().ok();
    let date =
        Date::from_calendar_date(whole.get(..4)?.parse().ok()?, Month::try_from(number(4, 6)?).ok()?, number(6, 8)?);
    // A leap second is the one before it.
    let time = Time::from_hms(number(8, 10)?, number(10, 12)?, number(12, 14)?.min(59)).ok()?;
    let at = PrimitiveDateTime::new(date.ok()?, time).assume_utc().unix_timestamp_nanos();
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    i64::try_from(at + fraction).ok()
}

/// The same the other way round, in whole seconds.
pub fn moment_text(modified_ns: i64) -> Option<String> {
    let at = time::OffsetDateTime::from_unix_timestamp(modified_ns.div_euclid(1_000_000_000)).ok()?;
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    (1..=9_999)
        .contains(&year)
        .then(|| format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}", at.hour(), at.minute(), at.second()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(line: Line) -> (String, What, u64) {
        let entry = line.expect("a line").expect("an entry");
        (entry.name.to_string(), entry.what, entry.size)
    }

    #[test]
    fn lines_of_mlsd_are_understood() {
        let entry =
            facts(b"modify=20261123163458.5;perm=adfrw;size=12;type=file;unique=FE03U1;UNIX.mode=0644; a b;c.txt");
        let entry = entry.expect("a line").expect("an entry");
        assert_eq!((entry.name.as_str(), entry.size, entry.mode), ("a b;c.txt", 12, Some(0o644)));
        assert_eq!(entry.modified.as_deref().and_then(moment), Some(1_795_451_698_500_000_000));
        assert_eq!(of(facts(b"Type=dir; sub")), ("sub".into(), What::Folder, 0));
        assert_eq!(of(facts(b"type=OS.unix=slink:/Up/x; l")), ("l".into(), What::Link(Some("/Up/x".into())), 0));
        assert_eq!(of(facts(b"type=OS.unix=symlink; l")), ("l".into(), What::Link(None), 0));
        assert_eq!(of(facts(b"type=OS.unix=chr-13/29; d")), ("d".into(), What::Other, 0));
        assert_eq!(facts(b"type=cdir; .").expect("a line"), None);
        assert_eq!(of(facts(b"type=file;size=0; /up/name")), ("name".into(), What::File, 0));
        for bad in
            [&b"type=file; no size"[..], b"type=file;size=1; \xff", b"drwx", b"type=file;size=99999999999999999; a"]
        {
            assert!(facts(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lines_of_list_are_understood_as_unix_and_dos_write_them() {
        let unix = "-rw-r--r--    1 ftp      ftp          1234 Nov 23 16:34 ";
        assert_eq!(of(listed(format!("{unix}a  b").as_bytes())), ("a  b".into(), What::File, 1234));
        assert_eq!(of(listed(format!("{unix} leading").as_bytes())), (" leading".into(), What::File, 1234));
        for line in [
            "-rw-r--r--   1 owner    8 Jan  1  2024 f",
            "-rw-rw-r--+  1 some one group 8 2024-01-01 10:00 f",
            "-rw-rw-r-- 1 1000 1000 8 1 Jan 10:00 f",
            "01-01-24  10:00AM                    8 f",
            "01-01-2024  10:00                    8 f",
        ] {
            assert_eq!(of(listed(line.as_bytes())), ("f".into(), What::File, 8), "{line}");
        }
        assert_eq!(of(listed(b"drwxr-xr-x 2 0 0 4096 Jan 01 2024 2024")), ("2024".into(), What::Folder, 0));
        assert_eq!(of(listed(b"01-01-24  10:00AM       <DIR>          My Files")).1, What::Folder);
        let link = of(listed(b"lrwxrwxrwx 1 0 0 7 Jan 01 2024 a -> b/c d"));
        assert_eq!(link, ("a".into(), What::Link(Some("b/c d".into())), 0));
        assert_eq!(of(listed(b"prw-r--r-- 1 0 0 0 Jan 01 2024 fifo")).1, What::Other);
        assert_eq!(listed(b"total 12").expect("a line"), None);
        assert_eq!(listed(b"drwxr-xr-x 2 0 0 4096 Jan 01 2024 ..").expect("a line"), None);
        assert!(listed(b"<html>").is_err() && listed(b"-rw-r--r-- 1 0 0 5 Jan 01 2024 \xff").is_err());
    }

    #[test]
    fn moments_are_read_and_written_and_what_is_none_is_not() {
        let text = moment_text(1_795_451_698_999_999_999).expect("a year");
        assert_eq!((text.as_str(), moment(&text)), ("20261123163458", Some(1_795_451_698_000_000_000)));
        assert_eq!(moment("19691231235959"), Some(-1_000_000_000));
        for bad in ["", "2026", "20261323163458", "20261123163458.", "+0261123163458", "20261123163458.1234567890"] {
            assert_eq!(moment(bad).filter(|_| bad != "20261123163458."), None, "{bad}");
        }
        assert_eq!(moment_text(i64::MAX).map(|text| text.len()), Some(14));
    }

    proptest! {
        #[test]
        fn no_line_panics_and_no_name_leads_anywhere(line in proptest::collection::vec(any::<u8>(), 0..80), tail in ".{0,20}") {
            let unix = format!("-rw-r--r-- 1 0 0 5 Jan 01 2024 {tail}");
            let mlsd = format!("type=file;size=1; {tail}");
            for entry in [facts(&line), listed(&line), listed(unix.as_bytes()), facts(mlsd.as_bytes())].into_iter().flatten().flatten() {
                prop_assert!(!entry.name.as_str().contains('/') && entry.name.as_str() != "..");
            }
        }
    }
}
