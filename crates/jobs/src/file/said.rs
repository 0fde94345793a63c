//! Values as they are written, read into what they mean while the file is read, so that what is wrong with one has its line.

use crate::schedule::{Cron, Period, Start, Window};
use crate::template::Template;
use holdfast_base::{Error, Result, size};
use holdfast_meta::Tag;
use holdfast_transfer::filter::{parse_age, parse_moment};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;
use std::time::Duration;

/// Most that a list in a job may have.
const LIST_MAX: usize = 10_000;
/// What a compiled expression may take.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// A value, and how it is written.
#[derive(Debug, Clone)]
pub struct Said<T> {
    text: String,
    value: T,
}

/// What can be read from a text.
pub trait Read: Sized {
    /// Reads it.
    fn read(text: &str) -> Result<Self>;
}

impl<T: Read> Said<T> {
    /// Reads a value.
    pub fn new(text: &str) -> Result<Self> {
        Ok(Self { value: T::read(text)?, text: text.to_owned() })
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> Deref for Said<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Said<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Serialize for Said<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, T: Read> Deserialize<'de> for Said<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(|error| serde::de::Error::custom(error.message()))
    }
}

/// A length of time that is not nothing.
#[derive(Debug, Clone, Copy)]
pub struct Age(pub Duration);
/// A length of time that may be nothing: `0s`.
#[derive(Debug, Clone, Copy)]
pub struct Leeway(pub Duration);
/// A number of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);
/// Bytes a second, at least one.
#[derive(Debug, Clone, Copy)]
pub struct Rate(pub u64);
/// A time of change, which may be relative to when a run begins.
#[derive(Debug, Clone)]
pub struct Moment(pub String);
/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone(pub TimeZone);
/// A glob.
#[derive(Debug, Clone)]
pub struct Glob(pub String);
/// The name of an environment variable.
#[derive(Debug, Clone)]
pub struct Variable(pub String);
/// An address of a web hook.
#[derive(Debug, Clone)]
pub struct Hook(pub http::Uri);
/// An address of mail.
#[derive(Debug, Clone)]
pub struct MailAddress(pub String);

impl Read for Template {
    fn read(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Read for Cron {
    fn read(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Read for Period {
    fn read(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Read for Window {
    fn read(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Read for Age {
    fn read(text: &str) -> Result<Self> {
        let age = parse_age(text)?;
        if age.is_zero() { Err(Error::invalid("it cannot be nothing")) } else { Ok(Self(age)) }
    }
}

impl Read for Leeway {
    fn read(text: &str) -> Result<Self> {
        parse_age(text).map(Self)
    }
}

impl Read for Bytes {
    fn read(text: &str) -> Result<Self> {
        size::parse_bytes(text).map(Self)
    }
}

impl Read for Rate {
    fn read(text: &str) -> Result<Self> {
        match size::parse_bytes(text)? {
            0 => Err(Error::invalid("at 0 bytes a second nothing would ever arrive")),
            rate => Ok(Self(rate)),
        }
    }
}

impl Read for Moment {
    fn read(text: &str) -> Result<Self> {
        parse_moment(text, 0).map(|_| Self(text.to_owned()))
    }
}

impl Read for Zone {
    fn read(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!(
                "{text:?} is no time zone: write a name like Europe/Berlin, America/New_York or UTC"
            ))
        };
        TimeZone::get(text).map(Self).map_err(|_| bad())
    }
}

impl Read for Start {
    fn read(text: &str) -> Result<Self> {
        if let Ok(at) = text.parse::<Timestamp>() {
            return Timestamp::from_second(at.as_second())
                .map(Self::At)
                .map_err(|error| Error::invalid(error.to_string()));
        }
        let local = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|day| day.at(0, 0, 0, 0)));
        let local = local.ok().and_then(|local| local.with().subsec_nanosecond(0).build().ok());
        local.map(Self::Local).ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is no time to start at: write 2026-01-31T06:00 (local), 2026-01-31T06:00:00Z or 2026-01-31"
            ))
        })
    }
}

impl Read for Tag {
    fn read(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl Read for Glob {
    fn read(text: &str) -> Result<Self> {
        let patterns = holdfast_transfer::Patterns { globs: vec![text.to_owned()], expressions: Vec::new() };
        holdfast_transfer::Filter::new(
            &patterns,
            &holdfast_transfer::Patterns::default(),
            holdfast_transfer::Bounds::default(),
        )?;
        Ok(Self(text.to_owned()))
    }
}

impl Read for Regex {
    fn read(text: &str) -> Result<Self> {
        RegexBuilder::new(text).size_limit(EXPRESSION_BYTES_MAX).build().map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Error::invalid(format!("{text:?} is no regular expression: {why}"))
        })
    }
}

impl Read for Variable {
    fn read(text: &str) -> Result<Self> {
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid("it is the name of an environment variable, not what is in it"))
        }
    }
}

impl Read for Hook {
    fn read(text: &str) -> Result<Self> {
        let uri = text.parse::<http::Uri>().ok();
        let uri = uri.filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        });
        let uri = uri.ok_or_else(|| Error::invalid("a web hook is like https://example.org/hook"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Error::invalid("an address cannot have a password in it: use token-file or token-env"));
        }
        Ok(Self(uri))
    }
}

impl Read for MailAddress {
    fn read(text: &str) -> Result<Self> {
        let parts =
            text.split_once('@').filter(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
        let plain = text.len() <= 254
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b',' | b';' | b'<' | b'>' | b'"'));
        if parts.is_some() && plain {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!("{text:?} is no address of mail")))
        }
    }
}

/// A secret where none may be: refuses all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Refused {}

impl<'de> Deserialize<'de> for Refused {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        let what = "secrets are not written here: put it in a file and name that with password-file or token-file, or in an environment variable and name that with \
                    password-env or token-env";
        Err(serde::de::Error::custom(what))
    }
}

/// One or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Several<T>(pub Vec<T>);

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Several<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Several<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Several<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of texts")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Several<T>, E> {
                let one = serde::de::value::StrDeserializer::new(text);
                T::deserialize(one).map(|one| Several(vec![one]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Several<T>, A::Error> {
                let mut several = Vec::new();
                while let Some(one) = list.next_element()? {
                    if several.len() == LIST_MAX {
                        return Err(serde::de::Error::custom(format!("a list has {LIST_MAX} members at most")));
                    }
                    several.push(one);
                }
                Ok(Several(several))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}
