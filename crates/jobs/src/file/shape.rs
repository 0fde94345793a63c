//! The shape of a job file.

use super::said::{Age, Bytes, Glob, Hook, Leeway, MailAddress, Moment, Rate, Refused, Said, Several, Variable, Zone};
use crate::schedule::{Cron, Period, Start, Window};
use crate::template::{self, Template};
use holdfast_meta::Tag;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// A job file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobFile {
    /// How mail is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
    /// Places that jobs name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sites: BTreeMap<String, Spanned<SiteText>>,
    /// The jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub jobs: BTreeMap<String, Spanned<JobText>>,
}

/// How mail is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mail {
    /// A program that reads a message, `/usr/sbin/sendmail -t`, in its words.
    pub command: Vec<String>,
    /// Whom mail is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Said<MailAddress>>,
}

/// A place, and how one gets in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SiteText {
    /// Where it is.
    pub address: String,
    /// The login that is used unless another is named.
    #[serde(default, skip_serializing_if = "LoginText::is_empty")]
    pub login: LoginText,
    /// Others, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub logins: BTreeMap<String, LoginText>,
    /// Configuration file of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_config: Option<PathBuf>,
    /// Certificates that are believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Transport to a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane: Option<Plane>,
    /// Connections at a time, of all jobs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u16>,
    /// Bytes a second, of all jobs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Said<Rate>>,
    #[serde(default, skip_serializing)]
    pub(super) password: Option<Refused>,
    #[serde(default, skip_serializing)]
    pub(super) token: Option<Refused>,
}

/// How one gets in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoginText {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File with the password in its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Environment variable that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<Said<Variable>>,
    /// File with an app token of a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Environment variable that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<Said<Variable>>,
    /// File with a private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    #[serde(default, skip_serializing)]
    pub(super) password: Option<Refused>,
    #[serde(default, skip_serializing)]
    pub(super) token: Option<Refused>,
}

impl LoginText {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $word:ident,)* })*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$of])* $word,)* })*
    };
}

words! {
    /// Transport to a drive.
    Plane {
        /// Whichever suits.
        #[default]
        Auto,
        /// TCP.
        Tcp,
        /// QUIC.
        Quic,
    }
    /// What a job does.
    What {
        /// Files arrive beside what is there.
        #[default]
        Push,
        /// The destination becomes equal to the source.
        Sync,
    }
    /// What a sync removes.
    Delete {
        /// Nothing.
        #[default]
        No,
        /// What the source has not, after all else has succeeded.
        AfterSuccess,
        /// The same though something failed.
        Anyway,
    }
    /// What happens to what is there.
    IfExists {
        /// It is replaced.
        #[default]
        Replace,
        /// It stays.
        Skip,
        /// Both are kept.
        KeepBoth,
        /// The file fails.
        Fail,
    }
    /// What happens to links.
    Links {
        /// They are moved.
        #[default]
        Copy,
        /// They are left out.
        Skip,
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobText {
    /// What is moved.
    pub from: Several<Said<Template>>,
    /// Where to.
    pub to: Said<Template>,
    /// Whether it is run by schedule, inbox and start.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub active: bool,
    /// What it does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: What,
    /// A list of paths below `from`; only those are moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_from: Option<Said<Template>>,
    /// Filters, as those of `push`.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub include: Several<Said<Glob>>,
    /// What is left out.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub exclude: Several<Said<Glob>>,
    /// By expression.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub include_regex: Several<Said<Regex>>,
    /// Left out by expression.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub exclude_regex: Several<Said<Regex>>,
    /// Least size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Said<Bytes>>,
    /// Largest size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Said<Bytes>>,
    /// Changed after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<Said<Moment>>,
    /// Changed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Said<Moment>>,
    /// What a sync removes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete: Delete,
    /// Even if the source is empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete_empty: bool,
    /// Removes from the source what has arrived.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete_source: bool,
    /// What happens to what is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub if_exists: IfExists,
    /// Tags of what arrives in a drive.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub tags: Several<Said<Tag>>,
    /// Leaves alone what is not older.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update: bool,
    /// What happens to links.
    #[serde(default, skip_serializing_if = "is_default")]
    pub links: Links,
    /// Compares by content.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checksum: bool,
    /// Compares both sides by content afterwards.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verify: bool,
    /// How often it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Said<Period>>,
    /// The first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Said<Start>>,
    /// When it is due, by a line of cron.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Said<Cron>>,
    /// How late a run may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Said<Leeway>>,
    /// Whether it is due when the runner starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_on_start: bool,
    /// Whose local time is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Said<Zone>>,
    /// Hours in which it may be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Said<Window>>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Said<Rate>>,
    /// Other rates in certain hours; the first that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_in: Vec<RateIn>,
    /// Runs that are tried after one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// Silence after which a file is begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Said<Age>>,
    /// How long after its last progress a file is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_for: Option<Said<Age>>,
    /// Large files at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u16>,
    /// Small files at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_small: Option<u16>,
    /// Variables of its paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, template::Variable>,
    /// New names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rename: Option<Said<Template>>,
    /// What must match for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rename_match: Option<Said<Regex>>,
    /// A folder of orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox: Option<PathBuf>,
    /// A mailbox of orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Mailbox>,
    /// Steps after a run that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_success: Vec<Step>,
    /// Steps after one that did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_failure: Vec<Step>,
}

/// A mailbox, and which mails in it start a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mailbox {
    /// Where it is: a site of `imaps://`, and the mailbox.
    pub at: String,
    /// How often it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Said<Age>>,
    /// Who may send them. Anybody can write any sender into a mail.
    pub from: Several<Said<MailAddress>>,
    /// What the subject must match, without the secret word.
    pub subject: Said<Regex>,
    /// File with a secret word, in its first line, which the subject has too.
    pub secret_file: PathBuf,
    #[serde(default, skip_serializing)]
    pub(super) secret: Option<Refused>,
}

/// A rate in certain hours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RateIn {
    /// The hours.
    pub window: Said<Window>,
    /// Bytes a second; none is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Said<Rate>>,
}

/// Runs that are tried after one that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retries {
    /// How many.
    pub count: u16,
    /// The pause before the first; it doubles with each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Said<Age>>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Said<Age>>,
}

/// Something that is done after a run: one of `notify`, `mail` and `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// A web hook that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Said<Hook>>,
    /// File with a token that the hook is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Environment variable that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<Said<Variable>>,
    /// Certificates that are believed of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Who gets mail.
    #[serde(default, skip_serializing_if = "Several::is_empty")]
    pub mail: Several<Said<MailAddress>>,
    /// A program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The policy that confines the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Said<Age>>,
    #[serde(default, skip_serializing)]
    pub(super) token: Option<Refused>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
