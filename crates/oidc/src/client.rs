//! Calls to a provider: HTTP/1.1 over rustls, whole answers, with a bound on size and time.

use bytes::Bytes;
use holdfast_base::{Error, Result};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest answer of a provider.
pub const ANSWER_BYTES_MAX: usize = 512 << 10;

/// Longest time a call may take, from the connection to the answer's last byte.
pub const CALL_TIME: Duration = Duration::from_secs(10);

/// Somebody waits at a page: a provider that is away is to be told of soon.
const CONNECT_TIME: Duration = Duration::from_secs(5);

pub(crate) struct Client(Pool<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Client {
    /// Believes in the machine's authorities, or in those of a PEM file alone.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIME));
        tcp.enforce_http(false);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS could not be set up").with_source(error))?;
        let tls = builder.with_root_certificates(roots(ca_file)?).with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        // A provider that is restarted must not meet a connection of before.
        Ok(Self(
            Pool::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_max_idle_per_host(0)
                .build(connector),
        ))
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &str, bearer: Option<&str>) -> Result<T> {
        let authorization = bearer.map(|token| format!("Bearer {token}"));
        self.json(url, Method::GET, None, authorization.as_deref()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, url: &str, form: String, basic: Option<&str>) -> Result<T> {
        self.json(url, Method::POST, Some(form), basic).await
    }

    async fn json<T: DeserializeOwned>(
        &self,
        url: &str,
        method: Method,
        form: Option<String>,
        authorization: Option<&str>,
    ) -> Result<T> {
        check_url(url)?;
        let uri: Uri = url.parse().map_err(|_| Error::invalid(format!("{url} is no address")))?;
        let mut request = Request::builder().method(method).uri(uri).header(ACCEPT, "application/json");
        if form.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::try_from(authorization)
                .map_err(|_| Error::invalid("the provider's secret has characters that cannot be sent"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Full::new(Bytes::from(form.unwrap_or_default())))
            .map_err(|error| Error::internal("a request to the provider cannot be made").with_source(error))?;
        let answered = tokio::time::timeout(CALL_TIME, self.whole(request)).await;
        let (status, body) = answered.map_err(|_| away("it did not answer in time"))??;
        if !status.is_success() {
            tracing::warn!(url, status = status.as_u16(), body = %String::from_utf8_lossy(&body[..body.len().min(300)]),
                "the provider refused a call");
            let message = format!("the provider refused a call of the drive ({})", status.as_u16());
            return Err(if status.is_server_error() { Error::unavailable(message) } else { Error::forbidden(message) });
        }
        serde_json::from_slice(&body)
            .map_err(|error| away("it answered something else than it should").with_source(error))
    }

    async fn whole(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
        let answer = self.0.request(request).await.map_err(|error| away("it cannot be reached").with_source(error))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| away("its answer broke off or is too long").with_source(error))?;
        Ok((head.status, body.to_bytes()))
    }
}

fn away(why: &str) -> Error {
    Error::unavailable(format!("the provider cannot be asked: {why}"))
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        let unreadable = |error: String| Error::invalid(format!("ca_file {}: {error}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
    } else {
        // Without any, providers on this machine by plain HTTP can still be used; others are refused by TLS itself.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

/// Tokens and codes are not shown to a network: https, or this machine.
pub(crate) fn check_url(url: &str) -> Result<()> {
    let uri: Uri = url.parse().map_err(|_| Error::invalid(format!("{url} is no address")))?;
    let host = uri.host().unwrap_or_default();
    let here = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(()),
        Some("http") if here => Ok(()),
        _ => Err(Error::invalid(format!("{url} must begin with https:// (or http:// on this machine)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine() {
        for url in ["https://id.example/x", "http://127.0.0.1:80/x", "http://localhost:1/", "http://[::1]:2/"] {
            check_url(url).expect(url);
        }
        for url in ["http://id.example/", "http://127.0.0.1.example/", "ftp://localhost/", "x", "https://"] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }
}
