//! Sending an operation to a server and holding the answer against the model.

use std::fmt;
use std::io;

use super::tree::{Lock, Model, Op, TreePath};
use crate::http::{Client, Request, Response};

/// Namespace of the dead properties that operations set.
pub const PROPERTY_NAMESPACE: &str = "urn:holdfast:testkit";

/// Why an operation or comparison failed.
#[derive(Debug)]
pub enum Failure {
    /// No answer: the operation may or may not have been done.
    Io(io::Error),
    /// The server says that it could not (5xx): the operation may or may not have been done.
    Server {
        /// The status.
        status: u16,
        /// The beginning of what it says.
        text: String,
    },
    /// The server differs from the model, in words.
    Mismatch(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "no answer: {error}"),
            Self::Server { status, text } => write!(f, "status {status}: {text}"),
            Self::Mismatch(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The path of a place of the model on the server.
pub(super) fn place(base: &str, path: &TreePath) -> String {
    match path.depth() {
        0 => base.to_owned(),
        _ => format!("{base}/{path}"),
    }
}

/// Sends `op` below the folder `base`, compares the answer with the model and, when it was done,
/// applies it to the model. Returns the status.
///
/// # Errors
/// [`Failure::Io`] and [`Failure::Server`] leave the model as it was; the server holds the model or [`Model::after`].
pub fn play(client: &mut Client, base: &str, model: &mut Model, op: &Op) -> Result<u16, Failure> {
    let prediction = model.predict(op);
    let response = client.send(&request(client, base, model, op))?;
    if !prediction.allows(response.status) {
        let text: String = response.text().chars().take(300).collect();
        if response.status >= 500 {
            return Err(Failure::Server { status: response.status, text });
        }
        return Err(Failure::Mismatch(format!("{op:?}: status {} instead of {prediction:?}: {text}", response.status)));
    }
    if prediction.success.contains(&response.status) {
        check_answer(model, op, &response)?;
        model.apply(op, &token(op, &response)?);
    }
    Ok(response.status)
}

/// The request for an operation.
fn request(client: &Client, base: &str, model: &Model, op: &Op) -> Request {
    let at = |path| place(base, path);
    let request = match op {
        Op::Get { path } => Request::new("GET", &at(path)),
        Op::Put { path, seed, len, .. } => Request::new("PUT", &at(path)).body(Op::content(*seed, *len).to_vec()),
        Op::Delete { path, .. } => Request::new("DELETE", &at(path)),
        Op::Mkcol { path, .. } => Request::new("MKCOL", &at(path)),
        Op::Copy { from, to, overwrite, deep, .. } => client
            .transfer("COPY", &at(from), &at(to), *overwrite)
            .header("Depth", if *deep { "infinity" } else { "0" }),
        Op::Move { from, to, overwrite, .. } => client.transfer("MOVE", &at(from), &at(to), *overwrite),
        Op::Proppatch { path, name, value, .. } => {
            Request::proppatch(&at(path), PROPERTY_NAMESPACE, &[(name, value.as_deref())])
        }
        Op::Lock { path, deep, exclusive, .. } => Request::lock(
            &at(path),
            if *exclusive { "exclusive" } else { "shared" },
            if *deep { "infinity" } else { "0" },
        ),
        Op::Unlock { path } => {
            let lock = model.locks.iter().find(|lock| lock.root == *path);
            let token = lock.map_or("urn:uuid:00000000-0000-4000-8000-000000000000", |l| &l.token);
            Request::new("UNLOCK", &at(path)).header("Lock-Token", format!("<{token}>"))
        }
    };
    let conditions: Vec<String> = model.tokens_for(op).into_iter().map(|lock| condition(client, base, lock)).collect();
    request.maybe_header("If", (!conditions.is_empty()).then(|| conditions.join(" ")))
}

/// One tagged list of the `If` field (RFC 4918 section 10.4), true while the lock exists.
fn condition(client: &Client, base: &str, lock: &Lock) -> String {
    format!("<{}> (<{}>)", client.url(&place(base, &lock.root)), lock.token)
}

/// Looks into an answer that says the operation was done.
fn check_answer(model: &Model, op: &Op, response: &Response) -> Result<(), Failure> {
    match op {
        Op::Get { path } => {
            let content = model.node(path).and_then(|node| node.content.as_ref());
            match content {
                Some(content) if **content != *response.body => Err(Failure::Mismatch(format!(
                    "GET {path}: {} other bytes than the {} that were put",
                    response.body.len(),
                    content.len()
                ))),
                _ => Ok(()),
            }
        }
        Op::Proppatch { .. } => {
            let resources = crate::http::parse_multistatus(&response.text())?;
            let statuses = resources.iter().flat_map(|r| r.properties.values());
            let failed = statuses.map(|(status, _)| *status).find(|&s| s != 200);
            failed.map_or(Ok(()), |status| Err(Failure::Mismatch(format!("{op:?}: status {status} in the answer"))))
        }
        _ => Ok(()),
    }
}

/// The token that a LOCK returned.
fn token(op: &Op, response: &Response) -> Result<String, Failure> {
    if !matches!(op, Op::Lock { .. }) {
        return Ok(String::new());
    }
    let token = response.header("lock-token").map(str::trim);
    let token = token.and_then(|t| t.strip_prefix('<')?.strip_suffix('>'));
    token
        .map(str::to_owned)
        .ok_or_else(|| Failure::Mismatch(format!("{op:?}: no Lock-Token in {:?}", response.headers)))
}
