//! The log of what a confined program was refused, a line of JSON each.

use holdfast_broker::Record;
use holdfast_policy::Policy;
use serde_json::json;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where decisions are written.
pub(crate) struct Log {
    to: Mutex<Box<dyn Write + Send>>,
    rules: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(to: Box<dyn Write + Send>, policy: &Policy) -> Self {
        Self { to: Mutex::new(to), rules: Mutex::new(policy.describe()) }
    }

    /// Takes the words of another policy's rules.
    pub(crate) fn follow(&self, policy: &Policy) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = policy.describe();
    }

    /// Writes a line. A log that cannot be written must not let anything through, nor hold the program up: it is as if nobody read it.
    pub(crate) fn write(&self, record: &Record<'_>) {
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = record.rule.and_then(|number| Some(json!({ "number": number + 1, "text": rules.get(number)? })));
        drop(rules);
        let mut line = json!({
            "time_ms": u64::try_from(time_ms).unwrap_or(u64::MAX),
            "pid": record.pid,
            "program": record.program.to_string_lossy(),
            "operation": record.operation.name(),
            "path": record.path.to_string_lossy(),
            "allowed": record.allowed,
            "rule": rule,
            "errno": record.errno,
            "mechanism": "broker",
        })
        .to_string();
        line.push('\n');
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // In one call, so that lines of several programs in one file stay whole.
        let _ = to.write_all(line.as_bytes());
    }
}
