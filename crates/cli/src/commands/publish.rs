//! `holdfast publish`: a folder becomes a web site.

use super::publish_call::{CallArgs, segment, with_api};
use crate::output::{show, time};
use crate::secret;
use clap::{Args, ValueEnum};
use holdfast_base::Error;
use holdfast_base::size::format_bytes;
use http::Method;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The folder: SPACE, or SPACE/PATH.
    #[arg(value_name = "SPACE/FOLDER")]
    from: String,
    /// The site's name: lower-case letters, digits and dashes. A site that does not exist is made.
    #[arg(long = "as", value_name = "NAME")]
    site: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Go live at this time (RFC 3339, such as 2026-12-24T18:00:00Z) rather than now.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<i64>,
    /// Store it for a preview, and do not go live.
    #[arg(long, conflicts_with = "at")]
    draft: bool,
    /// Only compose: say what is wrong, or what would be published.
    #[arg(long, visible_alias = "dry-run")]
    check: bool,
    /// What changed, for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    call: CallArgs,
}

/// Settings of a site as options.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Host name under which the site is served; may be repeated. Replaces those it had.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Path below which it is served; / is the root. A new site without a host is found at /NAME.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Who may read it.
    #[arg(long, value_enum)]
    access: Option<AccessArg>,
    /// For password access: file with the site's password in its first line; - is standard input.
    #[arg(long, value_name = "FILE")]
    site_password_file: Option<PathBuf>,
    /// For members access: the space whose members may read it.
    #[arg(long, value_name = "SPACE")]
    members: Option<String>,
    /// Whether folders without a page of their own are listed.
    #[arg(long, value_enum)]
    listing: Option<Switch>,
    /// Snapshots kept.
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
}

/// Values of `--access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessArg {
    /// Everybody.
    Public,
    /// Who knows the site's password.
    Password,
    /// Members of a space.
    Members,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

impl SettingsArgs {
    /// As the API takes them.
    pub(crate) fn body(&self) -> anyhow::Result<Value> {
        let mut body = json!({});
        if !self.host.is_empty() {
            body["hosts"] = json!(self.host);
        }
        if let Some(path) = &self.path {
            body["path"] = json!(path);
        }
        if let Some(access) = self.access {
            let name = match access {
                AccessArg::Public => "public",
                AccessArg::Password => "password",
                AccessArg::Members => "members",
            };
            body["access"] = json!(name);
        }
        if let Some(file) = &self.site_password_file {
            body["password"] = json!(secret::from_file(file)?.expose());
        } else if self.access == Some(AccessArg::Password) {
            body["password"] = json!(secret::ask_new("the site")?.expose());
        }
        if let Some(members) = &self.members {
            body["members"] = json!(members);
        }
        if let Some(listing) = self.listing {
            body["listing"] = json!(listing == Switch::On);
        }
        if let Some(keep) = self.keep {
            body["keep"] = json!(keep);
        }
        Ok(body)
    }
}

/// Reads a time; milliseconds since 1970.
pub(crate) fn parse_time(text: &str) -> Result<i64, String> {
    let time = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    let time = time.map_err(|_| format!("{text:?} is not a time: write for example 2026-12-24T18:00:00Z"))?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).map_err(|error| error.to_string())
}

/// Runs it.
pub(crate) async fn run(args: PublishArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (space, path) = args.from.trim_start_matches('/').split_once('/').unwrap_or((&args.from, ""));
    let space = space.trim_matches('/');
    if space.is_empty() {
        return Err(Error::invalid("name the folder as SPACE or SPACE/PATH").into());
    }
    let body = json!({
        "space": space, "path": path, "note": args.note, "at_ms": args.at, "draft": args.draft, "check": args.check,
        "settings": args.settings.body()?,
    });
    let target = format!("/sites/{}/publish", segment(&args.site));
    let done = with_api(&args.call, async |api| Ok(api.call(Method::POST, &target, Some(&body)).await?)).await?;
    show(json, &done, |done| words(done, args.check))?;
    Ok(ExitCode::SUCCESS)
}

fn words(done: &Value, check: bool) -> String {
    let number = |key: &str| done[key].as_u64().unwrap_or_default();
    let bytes = |key: &str| format_bytes(number(key));
    let mut text = String::new();
    // Writing to a String cannot fail.
    if check {
        for route in done["routes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(text, "{route}");
        }
        let _ = writeln!(
            text,
            "{} files, {}, {} composed; nothing was published.",
            number("files"),
            bytes("bytes"),
            number("composed")
        );
    } else {
        let snapshot = done["snapshot"].as_str().unwrap_or("-");
        let state = match done["live_ms"].as_i64() {
            Some(at_ms) => format!("goes live {}", time(at_ms)),
            None if done["live"] == true => "is live".to_owned(),
            None => "is a draft".to_owned(),
        };
        let _ = writeln!(text, "{} {state} as snapshot {snapshot}.", done["site"].as_str().unwrap_or_default());
        let _ = writeln!(
            text,
            "{} files, {}, {} composed; {} were new ({}).",
            number("files"),
            bytes("bytes"),
            number("composed"),
            number("stored_files"),
            bytes("stored_bytes")
        );
        if let Some(url) = done["url"].as_str() {
            let _ = writeln!(text, "{url}/");
        }
    }
    for note in done["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "Note: {note}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Ok(0));
        assert!(parse_time("tomorrow").is_err());
    }
}
