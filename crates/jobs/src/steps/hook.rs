//! Telling a web hook: a POST of JSON, tried three times where it may help.

use crate::file::Step;
use crate::place::{from_environment, from_file};
use bytes::Bytes;
use holdfast_base::{Error, ErrorKind, Result};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Times that a hook is told, and the pause before the second; it doubles.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Posts `body`, and is content with any answer of success.
pub(super) async fn post(folder: &Path, (url, step): (&Uri, &Step), body: String, limit: Duration) -> Result<()> {
    let token = match (&step.token_file, &step.token_env) {
        (Some(file), _) => Some(from_file(&folder.join(file))?),
        (None, Some(name)) => Some(from_environment(&name.0)?),
        (None, None) => None,
    };
    let authorization = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose())));
    let mut authorization =
        authorization.transpose().map_err(|_| Error::invalid("the token has a character that a header cannot have"))?;
    if let Some(value) = &mut authorization {
        value.set_sensitive(true);
    }
    let client = client(step.ca.as_deref().map(|ca| folder.join(ca)).as_deref())?;
    let mut pause = PAUSE;
    for attempt in 1.. {
        let told = tokio::time::timeout(limit, once(&client, url, authorization.as_ref(), body.clone())).await;
        let error = match told {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if !error.is_temporary() => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => Error::new(
                ErrorKind::Timeout,
                format!("{} did not answer within {} s", shown(url), limit.as_secs_f32()),
            ),
        };
        if attempt >= TRIES {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

type Pool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

async fn once(client: &Pool, url: &Uri, authorization: Option<&HeaderValue>, body: String) -> Result<()> {
    let mut request = Request::post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")));
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let request = request.body(Full::new(body.into())).map_err(|error| Error::invalid(error.to_string()))?;
    let unreachable = |error| Error::unavailable(format!("{} cannot be reached", shown(url))).with_source(error);
    let answer = client.request(request).await.map_err(unreachable)?;
    let status = answer.status();
    // The connection goes with the client; nobody reads what it says.
    drop(answer.into_body().into_data_stream());
    match status.as_u16() {
        200..300 => Ok(()),
        408 | 429 | 500.. => Err(Error::unavailable(format!("{} answered {status}", shown(url)))),
        _ => Err(Error::new(ErrorKind::Conflict, format!("{} answered {status}", shown(url)))),
    }
}

/// Hooks have secrets in their paths.
fn shown(url: &Uri) -> String {
    format!("the hook of {}", url.authority().map_or("", http::uri::Authority::as_str))
}

fn client(ca: Option<&Path>) -> Result<Pool> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let unreadable = |error: String| Error::invalid(format!("ca {}: {error}", path.display()));
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS could not be set up").with_source(error))?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}
