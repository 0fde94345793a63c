//! What is measured: commands that fetch files, with the servers they fetch from.

use std::collections::HashMap;

use anyhow::{bail, ensure};

use crate::shared::quote;

/// What answers a tool on the far host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Service {
    /// This program as a server of files over HTTP/1.1, with ranges and a page that lists them.
    Http,
    /// OpenSSH's server, with keys made for this run.
    Ssh,
    /// This program as a drive, with the files in it.
    Drive,
    /// A command for the shell, with the same placeholders as the tool's.
    Command(String),
}

/// A tool to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) label: String,
    /// For the shell, with placeholders.
    pub(crate) template: String,
    pub(crate) service: Service,
    /// Congestion control of the kernel's TCP on both hosts.
    pub(crate) congestion: String,
    /// Whether it fetches files, which can be compared. A meter of links only moves bytes.
    pub(crate) fetches: bool,
}

/// What most servers have.
const CONGESTION: &str = "cubic";

/// A pull by Holdfast, by one of its planes, or whichever it takes. What it remembers of a server is forgotten with the trial.
macro_rules! pull {
    ($plane:literal) => {
        concat!(
            "{holdfast} pull -q --plane ",
            $plane,
            " --token-file {drive}/token --ca {drive}/data/tls/self-signed.pem https://{host}:{port}/bench/{count}/. {dir}"
        )
    };
}

/// A tool that is known by its name: name, command, service, whether it fetches files.
const PRESETS: &[(&str, &str, Service, bool)] = &[
    ("holdfast", pull!("auto"), Service::Drive, true),
    ("holdfast-quic", pull!("quic"), Service::Drive, true),
    ("holdfast-tcp", pull!("tcp"), Service::Drive, true),
    ("curl", "curl -sS -f -o {dest} http://{host}:{port}/{file}", Service::Http, true),
    (
        "aria2",
        "aria2c -q --no-conf --allow-overwrite=true --auto-file-renaming=false --file-allocation=none -x 16 -s 16 -k 1M -d {dir} -o {file} http://{host}:{port}/{file}",
        Service::Http,
        true,
    ),
    (
        "rclone",
        "rclone copy -q --config /dev/null --http-url http://{host}:{port}/ --transfers {threads} :http: {dir}",
        Service::Http,
        true,
    ),
    ("scp", "scp -S {work}/ssh -q {user}@{host}:{source}/{file} {dest}", Service::Ssh, true),
    ("rsync", "rsync --inplace -e {work}/ssh {user}@{host}:{source}/{file} {dest}", Service::Ssh, true),
];

impl Tool {
    /// Reads `NAME`, a preset, or `NAME=COMMAND`; `NAME@bbr` has another congestion control.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let (label, command) = text.split_once('=').map_or((text, None), |(label, command)| (label, Some(command)));
        let (name, congestion) = label.split_once('@').unwrap_or((label, CONGESTION));
        let good =
            |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        ensure!(
            good(name) && good(congestion),
            "--tool {text}: a name has letters, digits, - and _, and may have @CONGESTION behind it"
        );
        let tool = |template: &str, service: Service, fetches: bool, congestion: &str| Self {
            label: label.to_owned(),
            template: template.to_owned(),
            service,
            congestion: congestion.to_owned(),
            fetches,
        };
        if let Some(command) = command {
            ensure!(!command.trim().is_empty(), "--tool {text}: the command is empty");
            return Ok(tool(command, Service::Http, true, congestion));
        }
        if let Some(congestion) = name.strip_prefix("iperf3-") {
            let client = "iperf3 -c {host} -p {port} -R -n {bytes} -P {threads} -J";
            return Ok(tool(client, Service::Command("exec iperf3 -s -p {port}".to_owned()), false, congestion));
        }
        let Some((_, template, service, fetches)) = PRESETS.iter().find(|(known, ..)| *known == name) else {
            bail!(
                "--tool {text}: there is no preset {name:?}; there are {}, or write NAME=COMMAND",
                names().join(", ")
            );
        };
        Ok(tool(template, service.clone(), *fetches, congestion))
    }

    /// Whether it is run once for each file; else once for all of them.
    pub(crate) fn for_each_file(&self) -> bool {
        self.template.contains("{file}")
    }

    /// The program it cannot do without, which is what a command begins with; none if that is this one.
    pub(crate) fn program(&self) -> Option<&str> {
        self.template.split_whitespace().next().filter(|word| !word.starts_with('{'))
    }
}

/// All presets.
pub(crate) fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, ..)| *name).chain(["iperf3-cubic", "iperf3-bbr"]).collect()
}

/// Puts values in the place of `{name}`s, quoted for the shell. What is in braces and no name stays as it is, since shells use braces.
pub(crate) fn fill(template: &str, values: &HashMap<&str, String>) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let known = after.split_once('}').and_then(|(name, behind)| Some((quote(values.get(name)?), behind)));
        let (value, behind) = known.unwrap_or_else(|| ("{".to_owned(), after));
        text.push_str(&value);
        rest = behind;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_presets_or_commands_with_a_congestion_control() -> anyhow::Result<()> {
        let curl = Tool::parse("curl")?;
        assert_eq!((curl.label.as_str(), curl.congestion.as_str(), &curl.service), ("curl", "cubic", &Service::Http));
        let other = Tool::parse("curl@bbr")?;
        assert_eq!(
            (other.label.as_str(), other.congestion.as_str(), other.template),
            ("curl@bbr", "bbr", curl.template)
        );
        let mine = Tool::parse("mine@reno=get --to {dest} a=b")?;
        assert_eq!(
            (mine.template.as_str(), mine.congestion.as_str(), mine.for_each_file()),
            ("get --to {dest} a=b", "reno", false)
        );
        let meter = Tool::parse("iperf3-bbr")?;
        assert!(meter.congestion == "bbr" && !meter.fetches && meter.program() == Some("iperf3"));
        for name in names() {
            assert!(Tool::parse(name).is_ok(), "{name}");
        }
        for (text, why) in [
            ("no-such", "no preset"),
            ("x=", "empty"),
            ("=x", "name"),
            ("a b=x", "name"),
            ("curl@", "name"),
            ("a@b/c=x", "name"),
        ] {
            let said = Tool::parse(text).expect_err(text).to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
        Ok(())
    }

    #[test]
    fn placeholders_are_quoted_and_other_braces_left_alone() {
        let values = HashMap::from([("dest", "/a b/it's".to_owned()), ("port", "80".to_owned())]);
        assert_eq!(fill("x {dest} {port}{port} {none} ${HOME} {", &values), r"x '/a b/it'\''s' 8080 {none} ${HOME} {");
    }
}
