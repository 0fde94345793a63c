//! The built program, a drive in a temporary folder, and two people.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]

use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::server::{ServerOptions, TestServer};
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A password the strength check takes.
pub const PASSWORD: &str = "seventeen quiet herons";
/// Another one.
pub const OTHER_PASSWORD: &str = "a ladder of wet granite";

/// A data folder with the accounts `ana` (an administrator) and `ben`.
pub struct Drive {
    pub folder: TempDir,
    pub options: ServerOptions,
}

impl Drive {
    /// An empty folder, not yet a drive.
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ServerOptions::new(folder.path().join("data")).program(env!("CARGO_BIN_EXE_holdfast"));
        Self { folder, options }
    }

    /// A drive with the two accounts.
    pub fn new() -> Self {
        let drive = Self::empty();
        drive.ok(&["account", "add", "ana", "--admin", "--password-file", "-"], PASSWORD);
        drive.ok(&["account", "add", "ben", "--password-file", "-"], OTHER_PASSWORD);
        drive
    }

    pub fn start(&self) -> TestServer {
        self.options.clone().start().expect("starts")
    }

    pub fn start_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> TestServer {
        let options = arguments.iter().fold(self.options.clone(), |options, argument| options.argument(argument));
        let options = environment.iter().fold(options, |options, (name, value)| options.environment(name, value));
        options.start().expect("starts")
    }

    /// Runs a command on the drive.
    pub fn run(&self, arguments: &[&str], input: &str) -> Output {
        self.options.run(arguments, input.as_bytes()).expect("runs")
    }

    /// Runs a command that must succeed; its standard output.
    pub fn ok(&self, arguments: &[&str], input: &str) -> String {
        self.options.run_ok(arguments, input.as_bytes()).expect("succeeds")
    }

    /// Runs a command with `--json`; its output.
    pub fn json(&self, arguments: &[&str], input: &str) -> Value {
        let output = self.ok(&[arguments, &["--json"]].concat(), input);
        serde_json::from_str(&output).expect("is JSON")
    }

    /// Runs a command that must fail; its exit code and message.
    pub fn fails(&self, arguments: &[&str], input: &str) -> (i32, String) {
        let output = self.run(arguments, input);
        assert!(!output.status.success(), "{arguments:?} succeeds");
        (output.status.code().expect("exits"), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A JSON request.
pub fn call(client: &mut Client, method: &str, path: &str, body: Option<&Value>) -> Response {
    let mut request = Request::with_target(method, path);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    client.send(&request).expect("answers")
}

/// The JSON of an answer that must have this status.
pub fn json(answer: &Response, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("is JSON")
}

/// Asks until an answer is what it should be; what is not there at once is within seconds.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
