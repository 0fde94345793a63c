//! How commands about sites reach the drive: through the API, of the running server if there is one, else of a drive opened here.
//!
//! Publishing writes content, and only one process may do that. A running server says in its data directory where it is
//! ([`holdfast_server::DataDir::address_file`]); it is reached over plain HTTP on this machine.

use crate::args::{DataArg, UserArg};
use crate::secret;
use axum::Router;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use holdfast_auth::{Proof, Secret, Session};
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_server::{DataDir, LocalDrive, ServerConfig};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;

/// Longest answer that is read: a check of the largest site names fifty thousand paths.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where the drive is, and whose command it is.
#[derive(Debug, Clone, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    data: DataArg,
    #[command(flatten)]
    user: UserArg,
}

/// A drive's API.
pub(crate) enum DriveApi {
    /// Of a running server.
    Running { address: String, authorization: String },
    /// Of a drive opened here.
    Opened { drive: Box<LocalDrive>, api: Router, who: Arc<Session> },
}

impl DriveApi {
    /// Finds it and signs in.
    pub(crate) async fn open(args: &CallArgs) -> anyhow::Result<Self> {
        let directory = DataDir::open(&args.data.data)?;
        let password = secret::present(&args.user.user, args.user.password_file.as_deref())?;
        let config = args.data.config()?;
        match LocalDrive::open(directory.clone(), &config).await {
            Ok(drive) => Self::of_drive(drive, args, &config, &password).await,
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Self::Running {
                address: address(&directory)?,
                authorization: format!(
                    "Basic {}",
                    STANDARD.encode(format!("{}:{}", args.user.user, password.expose()))
                ),
            }),
            Err(error) => Err(error.into()),
        }
    }

    async fn of_drive(
        drive: LocalDrive,
        args: &CallArgs,
        config: &ServerConfig,
        password: &Secret,
    ) -> anyhow::Result<Self> {
        let opened = async {
            let who = drive.accounts().open(&args.user.user, Proof::Password(password)).await?;
            anyhow::Ok((drive.faces(config, Vec::new(), None, None)?.api, Arc::new(who)))
        };
        match opened.await {
            Ok((api, who)) => Ok(Self::Opened { drive: Box::new(drive), api, who }),
            Err(error) => {
                drive.close().await?;
                Err(error)
            }
        }
    }

    /// Calls it; the answer's JSON.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let bytes = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(bytes)));
        let mut request = request.map_err(|error| Error::invalid(error.to_string()))?;
        let (status, answer) = match self {
            Self::Opened { api, who, .. } => {
                request.extensions_mut().insert(who.clone());
                // A router's error type is `Infallible`.
                let Ok(answer) = api.clone().oneshot(request.map(axum::body::Body::new)).await;
                (answer.status(), read(answer.into_body()).await?)
            }
            Self::Running { address, authorization } => {
                let value = |text: &str| {
                    let value = http::HeaderValue::from_str(text);
                    value.map_err(|_| Error::invalid("the name or the password cannot be sent in a header"))
                };
                request.headers_mut().insert(AUTHORIZATION, value(authorization)?);
                request.headers_mut().insert(HOST, value(address)?);
                send(address, request).await?
            }
        };
        understood(status, &answer)
    }

    /// Closes it.
    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Self::Running { .. } => Ok(()),
            Self::Opened { drive, api, .. } => {
                drop(api);
                drive.close().await
            }
        }
    }
}

/// Where the running server is.
fn address(directory: &DataDir) -> Result<String> {
    let path = directory.address_file();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::from(error).context(format!("a server is using the drive, but does not say where in {}", path.display()))
    })?;
    let plain = text.lines().find_map(|line| line.strip_prefix("http://"));
    plain.map(ToOwned::to_owned).ok_or_else(|| {
        Error::invalid(
            "the running server has no plain http address on this machine: add one such as http://127.0.0.1:8642 to listen, \
             use the API with another client, or stop the server",
        )
    })
}

async fn send(address: &str, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
    let broken = |error: hyper::Error| Error::unavailable("the server broke the connection off").with_source(error);
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .map_err(|error| Error::from(error).context(format!("cannot reach the server at {address}")))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let driving = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let bytes = read(answer.into_body()).await?;
    driving.abort();
    Ok((status, bytes))
}

async fn read<B>(body: B) -> Result<Bytes>
where
    B: http_body_util::BodyExt<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let read = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    Ok(read.map_err(|error| Error::unavailable("the answer broke off").with_source(error))?.to_bytes())
}

fn understood(status: StatusCode, answer: &Bytes) -> Result<Value> {
    if status == StatusCode::NO_CONTENT {
        return Ok(Value::Null);
    }
    let json: Value = serde_json::from_slice(answer).unwrap_or_default();
    if status.is_success() {
        return Ok(json);
    }
    let detail = json["detail"].as_str().map_or_else(|| format!("the server answered {status}"), ToOwned::to_owned);
    let kind = match status.as_u16() {
        400 => ErrorKind::InvalidInput,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        409 | 405 => ErrorKind::Conflict,
        412 => ErrorKind::PreconditionFailed,
        413 => ErrorKind::TooLarge,
        423 => ErrorKind::Locked,
        429 => ErrorKind::TooManyRequests { retry_after_s: 1 },
        501 => ErrorKind::Unsupported,
        503 => ErrorKind::Unavailable,
        507 => ErrorKind::NoSpace,
        _ => ErrorKind::Internal,
    };
    Err(Error::new(kind, detail))
}

/// Runs `work` with the API and closes it whatever comes of it.
pub(crate) async fn with_api<T>(
    args: &CallArgs,
    work: impl AsyncFnOnce(&DriveApi) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let api = DriveApi::open(args).await?;
    let done = work(&api).await;
    let closed = api.close().await;
    let done = done?;
    closed?;
    Ok(done)
}

/// A site's name or a snapshot's in a path. What does not belong there is refused by the drive, in its own words.
pub(crate) fn segment(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_words_and_its_kind() {
        let answer = Bytes::from_static(b"{\"detail\": \"no such site\"}");
        let error = understood(StatusCode::NOT_FOUND, &answer).expect_err("refused");
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no such site"));
        assert_eq!(understood(StatusCode::BAD_GATEWAY, &Bytes::new()).expect_err("x").kind(), ErrorKind::Internal);
        assert_eq!(understood(StatusCode::NO_CONTENT, &Bytes::new()).expect("done"), Value::Null);
    }

    #[test]
    fn names_stay_in_their_segment() {
        assert_eq!(segment("blog-1"), "blog-1");
        assert_eq!(segment("../x y"), "..%2Fx%20y");
    }
}
