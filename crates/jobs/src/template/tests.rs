use super::*;
use holdfast_base::DrivePath;
use holdfast_transfer::{Item, Kind, Version};
use proptest::prelude::*;
use regex::Regex;
use std::collections::BTreeMap;

fn due() -> ZonedDateTime {
    "2026-03-01T00:30:00+01:00[Europe/Berlin]".parse().expect("a time")
}

fn filled(text: &str) -> Result<String> {
    let named = |name: &str| (name == "station").then(|| "ALPHA".to_owned());
    Template::parse(text)?.fill(&Fill { due: &due(), modified: None, named: &named })
}

#[test]
fn dates_are_those_of_the_jobs_zone_and_can_be_shifted() {
    for (text, expected) in [
        ("a/{today}", "a/2026-03-01"),
        ("{today-1d:%Y%m%d}", "20260228"),
        ("{today-1d:%j}", "059"),
        ("{today+2w:%d.%m.}", "15.03."),
        ("{today-1h:%H}", "23"),
        ("{{{station}}}_{today:%y}", "{ALPHA}_26"),
    ] {
        assert_eq!(filled(text).expect(text), expected);
    }
}

#[test]
fn what_cannot_be_filled_is_said_when_it_is_read() {
    for bad in [
        "",
        "{",
        "}",
        "a{b",
        "a}b",
        "{}",
        "{a b}",
        "{today-}",
        "{today-1y}",
        "{today:%!}",
        "{today-99999999d}",
        "{station:%Y}",
        "a\nb",
    ] {
        assert!(Template::parse(bad).is_err(), "{bad:?}");
    }
    assert!(filled("{nobody}").is_err_and(|error| error.message().contains("{nobody}")));
    assert!(filled("{modified}").is_err());
}

#[test]
fn variables_of_several_values_are_combined() {
    let range = Variable::Range(Range { from: 8, to: 10, step: None, width: Some(3) });
    assert_eq!(range.values().expect("a range"), ["008", "009", "010"]);
    let variables = BTreeMap::from([
        ("n".to_owned(), range),
        ("s".to_owned(), Variable::List(vec!["a".into(), "b".into()])),
        ("unused".to_owned(), Variable::List(vec!["x".into(), "y".into()])),
    ]);
    let all = combinations(&variables, ["s", "n", "s"].into_iter()).expect("combines");
    assert_eq!(all.len(), 6);
    assert_eq!(all[1], BTreeMap::from([("n".to_owned(), "008".to_owned()), ("s".to_owned(), "b".to_owned())]));
    let many = Variable::Range(Range { from: i64::MIN, to: i64::MAX, step: None, width: None });
    assert!(many.values().is_err());
    assert!(Variable::Range(Range { from: 2, to: 1, step: None, width: None }).values().is_err());
    let wide = BTreeMap::from(
        ["a", "b"]
            .map(|name| (name.to_owned(), Variable::Range(Range { from: 1, to: 1_000, step: None, width: None }))),
    );
    assert!(combinations(&wide, ["a", "b"].into_iter()).is_err_and(|error| error.kind() == ErrorKind::TooLarge));
}

fn renamed(template: &str, expression: Option<&str>, path: &str) -> Result<String> {
    let item = Item {
        name: holdfast_base::NodeName::new("x").expect("a name"),
        kind: Kind::File,
        size: 1,
        modified_ns: Some(1_700_000_000_000_000_000),
        mode: None,
        version: Version(String::new()),
    };
    let expression = expression.map(|text| Regex::new(text).expect("an expression"));
    let renamer = Renamer { template: Template::parse(template)?, expression, due: due(), variables: BTreeMap::new() };
    let path = DrivePath::parse(path).expect("a path");
    renamer.rename(&path, &item).map(|path| path.to_string())
}

#[test]
fn new_names_are_made_of_parts_dates_and_groups() {
    for (template, expression, path, expected) in [
        ("{parent}/{stem}-{today:%Y}.{extension}", None, "a/b/c.tar.gz", "/a/b/c.tar-2026.gz"),
        ("{parent}/{name}", None, "c", "/c"),
        ("{modified:%Y/%m}/{name}", None, "a/c", "/2023/11/c"),
        ("{2}/{year}.{extension}", Some(r"(?P<year>\d{4})_(\w+)"), "in/2024_sst.nc", "/sst/2024.nc"),
        ("{1}", Some("^x(y)$"), "other/name", "/other/name"),
        ("{1}{2}", Some("(a)|(b)"), "b", "/b"),
    ] {
        assert_eq!(renamed(template, expression, path).expect(template), expected);
    }
}

#[test]
fn no_new_name_leads_out_of_the_destination() {
    for (template, expression, path) in
        [("../{name}", None, "a"), ("{1}/{name}", Some(r"^(\.)"), ".a"), ("{stem}.", Some("zz"), "..")]
    {
        let outcome = if path == ".." { Err(Error::invalid("no path")) } else { renamed(template, expression, path) };
        assert!(outcome.is_err(), "{template}");
    }
}

proptest! {
    #[test]
    fn no_template_panics_and_no_new_name_climbs(text in r"[a-z{}:%/.+0-9-]{0,30}", path in "[a-z.]{1,5}(/[a-z.]{1,5}){0,2}") {
        let _ = filled(&text);
        if DrivePath::parse(&path).is_ok()
            && let Ok(new) = renamed(&text, Some("(.)(.*)"), &path)
        {
            prop_assert!(new.split('/').all(|part| part != ".."), "{new}");
        }
    }
}
