//! What servers write into the text of their replies: features, paths in quotes, ports.

use super::reply::Reply;
use super::session::Features;

pub(super) fn features(told: &Reply) -> Features {
    let mut features = Features::default();
    for line in &told.lines {
        let line = line.trim().to_ascii_uppercase();
        match line.split_whitespace().next() {
            Some("MLST") => features.mlst = true,
            Some("MDTM") => features.mdtm = true,
            Some("MFMT") => features.mfmt = true,
            Some("REST") => features.rest = line.contains("STREAM"),
            Some("UTF8") => features.utf8 = true,
            _ => {}
        }
    }
    features
}

/// What is between quotes, of which two stand for one (RFC 959 appendix II).
pub(super) fn quoted(text: &str) -> Option<String> {
    let mut rest = text.split_once('"')?.1.chars().peekable();
    let mut inside = String::new();
    loop {
        match rest.next()? {
            '"' if rest.peek() == Some(&'"') => {
                rest.next();
                inside.push('"');
            }
            '"' => return Some(inside),
            other => inside.push(other),
        }
    }
}

/// `(|||PORT|)`, with any sign for the bars (RFC 2428 section 3).
pub(super) fn extended_port(text: &str) -> Option<u16> {
    let inside = text.split_once('(')?.1.split_once(')')?.0;
    let bar = inside.chars().next()?;
    let mut parts = inside.split(bar).skip(3);
    parts.next()?.parse().ok()
}

/// The last two of six numbers.
pub(super) fn passive_port(text: &str) -> Option<u16> {
    let numbers: Vec<u8> = text
        .split(|c: char| !c.is_ascii_digit() && c != ',')
        .find(|part| part.split(',').count() == 6)?
        .split(',')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    let [.., high, low] = numbers[..] else { return None };
    Some(u16::from(high) << 8 | u16::from(low))
}

#[cfg(test)]
mod tests {
    use super::super::session::command;
    use super::*;

    #[test]
    fn ports_are_found_in_what_servers_say() {
        assert_eq!(extended_port("Entering Extended Passive Mode (|||6446|)"), Some(6446));
        assert_eq!(extended_port("(!!!1!)"), Some(1));
        assert_eq!(passive_port("Entering Passive Mode (10,0,0,1,25,46)."), Some(6446));
        assert_eq!(passive_port("=127,0,0,1,1,2"), Some(258));
        for bad in ["", "(|||)", "(|||99999|)", "(||||)", "()", "(\u{e9}"] {
            assert_eq!(extended_port(bad), None, "{bad}");
        }
        for bad in ["", "(1,2,3,4,5)", "(1,2,3,4,5,256)", "(1,2,3,4,5,6,7)"] {
            assert_eq!(passive_port(bad), None, "{bad}");
        }
    }

    #[test]
    fn quotes_in_a_path_are_doubled_and_no_command_has_two_lines() {
        assert_eq!(quoted("\"/a \"\"b\"\"\" is here").as_deref(), Some("/a \"b\""));
        assert_eq!(quoted("/a is here"), None);
        assert_eq!(quoted("\"/a"), None);
        assert!(command("DELE a\r\nDELE b").is_err() && command("DELE a\0").is_err());
    }

    #[test]
    fn features_are_what_a_line_begins_with() {
        let lines = ["Features:", " MDTM", " MLST type*;size*;", " REST STREAM", " UTF8", " TVFS", "End"];
        let told = Reply { code: 211, lines: lines.map(str::to_owned).into() };
        let all = Features { mlst: true, mdtm: true, mfmt: false, rest: true, utf8: true };
        assert_eq!(features(&told), all);
    }
}
