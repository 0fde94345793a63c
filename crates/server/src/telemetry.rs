//! Logs: one line an event on standard error, for people or as JSON.

use holdfast_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// Shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Which requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLog {
    /// None.
    Off,
    /// Those that failed for a reason an operator may want to know of: 403, 408, 413, 429, 431, 5xx.
    #[default]
    Errors,
    /// All.
    All,
}

/// Logging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Shape of a line.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter by module such as `info,holdfast_drive=debug`.
    pub level: String,
    /// Which requests are logged.
    pub access: AccessLog,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info,refinery_core=warn".into(), access: AccessLog::default() }
    }
}

/// Starts logging. Called once a process; a second call changes nothing.
pub fn init(config: &LogConfig) -> Result<()> {
    let filter = EnvFilter::builder()
        .parse(&config.level)
        .map_err(|error| Error::invalid(format!("log.level {:?} is not a log filter: {error}", config.level)))?;
    let base = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start (tests in one process) keeps the first one's log.
    let _ = match config.format {
        LogFormat::Human => base.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => base.json().flatten_event(true).with_current_span(false).try_init(),
    };
    Ok(())
}
