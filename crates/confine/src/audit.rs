//! The log of what a confined program was refused: a line of JSON each in a file, if there is to be one, and the last ones in memory (`recent`).

use crate::recent::{Decided, Recent, RuleWords};
use holdfast_broker::Record;
use holdfast_policy::Policy;
use serde_json::json;
use std::io::{ErrorKind, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where decisions are written and kept.
pub(crate) struct Log {
    to: Option<Mutex<To>>,
    recent: Arc<Recent>,
    rules: Mutex<Vec<String>>,
    /// What decides.
    mechanism: &'static str,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(to: Option<Box<dyn Write + Send>>, policy: &Policy, mechanism: &'static str) -> Self {
        Self {
            to: to.map(|file| Mutex::new(To { file, unwritten: 0, lost: 0, torn: false })),
            recent: Arc::default(),
            rules: Mutex::new(policy.describe()),
            mechanism,
        }
    }

    /// The last decisions.
    pub(crate) fn recent(&self) -> &Arc<Recent> {
        &self.recent
    }

    /// Takes the words of another policy's rules.
    pub(crate) fn follow(&self, policy: &Policy) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = policy.describe();
    }

    /// Writes a line. A log that cannot be written must not let anything through, nor hold the program up: it is as if nobody read it.
    pub(crate) fn write(&self, record: &Record<'_>) {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let words = |number: usize| Some(RuleWords { number: number + 1, text: rules.get(number)?.clone() });
        let rule = record.rule.and_then(words);
        drop(rules);
        let decided = Decided {
            time_ms: now_ms(),
            pid: record.pid,
            program: record.program.to_string_lossy().into_owned(),
            operation: record.operation.name().to_owned(),
            path: record.path.to_string_lossy().into_owned(),
            allowed: record.allowed,
            rule,
            errno: record.errno,
            mechanism: self.mechanism.to_owned(),
        };
        let mut line = decided.line();
        self.recent.keep(decided, line.len());
        if let Some(to) = &self.to {
            line.push('\n');
            to.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
        }
    }

    /// Says in the log how many lines are missing there, if it takes any now, and how many there have been of such.
    pub(crate) fn unwritten(&self) -> u64 {
        let Some(to) = &self.to else { return 0 };
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        to.tell_unwritten();
        to.lost
    }
}

/// A log that may be unable to take lines for a while, as on a full disk: they are counted, and the number is a line of its own as soon as it takes one.
struct To {
    file: Box<dyn Write + Send>,
    /// Lines since the last one that was written.
    unwritten: u64,
    /// All that are missing.
    lost: u64,
    /// Whether only a part of the last line was written.
    torn: bool,
}

impl To {
    fn write(&mut self, line: &str) {
        self.tell_unwritten();
        if self.unwritten > 0 || !self.put(line) {
            self.unwritten += 1;
            self.lost += 1;
        }
    }

    fn tell_unwritten(&mut self) {
        if self.unwritten > 0 {
            let line = json!({ "time_ms": now_ms(), "unwritten": self.unwritten }).to_string() + "\n";
            if self.put(&line) {
                self.unwritten = 0;
            }
        }
    }

    /// In one call, so that lines of several programs in one file stay whole. What is left of one that did not fit ends where the next begins.
    fn put(&mut self, line: &str) -> bool {
        let begun = if self.torn { format!("\n{line}") } else { line.to_owned() };
        let mut left = begun.as_bytes();
        while !left.is_empty() {
            match self.file.write(left) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(written @ 1..) => {
                    left = &left[written..];
                    self.torn = !left.is_empty();
                }
                Ok(0) | Err(_) => return false,
            }
        }
        true
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    u64::try_from(since).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Takes so many bytes, and then none until it has room again.
    #[derive(Clone, Default)]
    struct Small(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Small {
        fn room(&self, bytes: usize) {
            self.0.lock().expect("no thread panicked").1 = bytes;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no thread panicked").0.clone()).expect("text")
        }
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut inner = self.0.lock().expect("no thread panicked");
            let taken = bytes.len().min(inner.1);
            if taken == 0 {
                return Err(std::io::Error::from(ErrorKind::StorageFull));
            }
            inner.1 -= taken;
            inner.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_the_number_is_written_when_there_is_room() {
        let small = Small::default();
        let mut to = To { file: Box::new(small.clone()), unwritten: 0, lost: 0, torn: false };
        small.room(9);
        to.write("line one\n");
        to.write("line two\n");
        small.room(4);
        // A part of the number is written, and then nothing.
        to.write("line three\n");
        to.write("line four\n");
        small.room(1000);
        to.write("line five\n");
        let text = small.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines[0], lines.len(), lines[3]), ("line one", 4, "line five"), "{text}");
        assert!(lines[2].ends_with("\"unwritten\":3}"), "{text}");
        assert_eq!((to.unwritten, to.lost), (0, 3));
    }
}
