//! A site's own doors, below `/.holdfast/`: signing in and out, previews, search; and the gate of sites that not everybody may read.
//!
//! | door | what it does |
//! |---|---|
//! | `POST sign-in` | takes the site's password from a form, sets a cookie, leads back |
//! | `POST sign-out` | takes the cookies away |
//! | `GET preview/TOKEN` | sets the cookie of a preview and leads to the site |
//! | `GET preview/end` | takes it away |
//! | `GET search?q=WORDS` | finds pages; JSON, or a page for a browser |
//!
//! A password is taken from a form, or as HTTP Basic with any name. Members of a space present their drive account (best: a
//! read-only app token) as HTTP Basic; whether they still are members is asked at every request. Passwords in clear over a
//! network are refused, as the drive does.

use super::answer::{Answer, Call, own, text, value};
use super::refresh::Serving;
use super::table::Mounted;
use super::visit::{self, DOORS, Kind, PREVIEW_COOKIE, VISIT_COOKIE};
use crate::compose::{self, SearchDocument};
use crate::limits::{FORM_BYTES_MAX, INDEX_BYTES_MAX, VISIT_S};
use crate::settings::Access;
use bytes::Bytes;
use holdfast_auth::{Credential, Secret};
use holdfast_base::{Error, ErrorKind, Result};
use http::header::{ACCEPT, AUTHORIZATION, LOCATION, SET_COOKIE, VARY, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a password that was right is not computed again (HTTP Basic sends it with every request).
const RIGHT_FOR: Duration = Duration::from_mins(30);
/// How many such are remembered.
const RIGHT_MAX: usize = 10_000;
/// Longest query that is searched for.
const QUERY_BYTES_MAX: usize = 200;

/// The challenge of a site's gate.
pub(crate) fn challenge(site: &Mounted) -> HeaderValue {
    value(&format!("Basic realm=\"{}\", charset=\"UTF-8\"", site.name))
}

/// Answers a GET of a door; none if there is no such door.
pub(crate) async fn open(serving: &Serving, call: &Call<'_>, door: &str) -> Result<Option<Answer>> {
    if let Some(token) = door.strip_prefix("preview/") {
        return Ok(Some(preview(serving, call, token)));
    }
    match door {
        "search" => match gate_if_closed(serving, call).await? {
            Some(closed) => Ok(Some(closed)),
            None => search(serving, call).await.map(Some),
        },
        "sign-in" if matches!(call.site.access, Access::Password { .. }) => Ok(Some(form(call, StatusCode::OK, ""))),
        _ => Ok(None),
    }
}

async fn gate_if_closed(serving: &Serving, call: &Call<'_>) -> Result<Option<Answer>> {
    if call.site.access == Access::Public { Ok(None) } else { gate(serving, call).await }
}

/// Answers a POST of a door.
pub(crate) async fn post<B>(serving: &Serving, call: &Call<'_>, body: B) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match &call.path[DOORS.len()..] {
        "sign-in" => sign_in(serving, call, body).await,
        "sign-out" => Ok(sign_out(call)),
        _ => Ok(text(StatusCode::NOT_FOUND, "There is no such door.\n")),
    }
}

/// Lets a request through (none), or answers what is missing.
pub(crate) async fn gate(serving: &Serving, call: &Call<'_>) -> Result<Option<Answer>> {
    let site = call.site;
    let now_s = serving.0.sites.clock().now_ms() / 1_000;
    let mut cookies = visit::cookies(&call.head.headers, VISIT_COOKIE);
    let is_password = matches!(site.access, Access::Password { .. });
    if is_password && cookies.any(|token| visit::check(&site.visit_key, Kind::Visit, token, now_s).is_some()) {
        return Ok(None);
    }
    let Some(sent) = call.head.headers.get(AUTHORIZATION) else {
        return Ok(Some(if is_password && wants_page(call) {
            form(call, StatusCode::UNAUTHORIZED, "")
        } else {
            closed(call)
        }));
    };
    let credential = Credential::from_authorization(sent.as_bytes())?;
    check_transport(call)?;
    match &site.access {
        Access::Public => Ok(None),
        Access::Password { .. } => check_password(serving, call, credential.secret()).await.map(|()| None),
        Access::Members { space } => {
            let session = (serving.0.checks.sign_in)(credential, call.visitor.address).await?;
            if serving.0.sites.may_read(&session.name, space).await? {
                return Ok(None);
            }
            Ok(Some(text(StatusCode::FORBIDDEN, "This account may not read this site.\n")))
        }
    }
}

fn check_transport(call: &Call<'_>) -> Result<()> {
    if call.visitor.may_send_secrets {
        return Ok(());
    }
    Err(Error::forbidden(
        "Passwords are not accepted over an unencrypted connection: use the https address of this site.",
    ))
}

fn closed(call: &Call<'_>) -> Answer {
    let words = match &call.site.access {
        Access::Members { .. } => "Sign in with your account of the drive.\n",
        _ => "Sign in with this site's password; any name will do.\n",
    };
    let mut answer = text(StatusCode::UNAUTHORIZED, words);
    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge(call.site));
    answer.headers_mut().insert(VARY, HeaderValue::from_static("authorization, cookie"));
    answer
}

/// Checks a site's password. One that was right a moment ago costs one hash.
async fn check_password(serving: &Serving, call: &Call<'_>, password: &Secret) -> Result<()> {
    let inner = &serving.0;
    let slot = call.site.access.slot().ok_or_else(|| Error::damaged("the site's password cannot be read"))?;
    let mut hasher = blake3::Hasher::new_keyed(&inner.right_key);
    hasher.update(&call.site.site.0).update(&call.site.visit_key).update(password.expose().as_bytes());
    let known = *hasher.finalize().as_bytes();
    let now = Instant::now();
    if inner.right.lock().get(&known).is_some_and(|until| now < *until) {
        return Ok(());
    }
    (inner.checks.password)(call.site.site, slot, password.clone(), call.visitor.address).await?;
    let mut right = inner.right.lock();
    if right.len() >= RIGHT_MAX {
        right.retain(|_, until| now < *until);
    }
    if right.len() < RIGHT_MAX {
        right.insert(known, now + RIGHT_FOR);
    }
    Ok(())
}

async fn sign_in<B>(serving: &Serving, call: &Call<'_>, body: B) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !matches!(call.site.access, Access::Password { .. }) {
        return Ok(text(StatusCode::NOT_FOUND, "This site has no password.\n"));
    }
    check_transport(call)?;
    let read = http_body_util::Limited::new(body, FORM_BYTES_MAX).collect().await;
    let bytes = read.map_err(|_| Error::new(ErrorKind::TooLarge, "the form is too long or was cut off"))?.to_bytes();
    let (mut password, mut next) = (None, String::new());
    for pair in bytes.split(|byte| *byte == b'&') {
        let pair = String::from_utf8_lossy(pair);
        let (name, raw) = pair.split_once('=').unwrap_or((&pair, ""));
        match name {
            "password" => password = Some(Secret::new(form_value(raw))),
            "next" => next = form_value(raw),
            _ => {}
        }
    }
    let password = password.ok_or_else(|| Error::invalid("the form has no password"))?;
    match check_password(serving, call, &password).await {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
            return Ok(form(call, StatusCode::UNAUTHORIZED, "That was not the password."));
        }
        Err(error) => return Err(error),
    }
    let ends_s = serving.0.sites.clock().now_ms() / 1_000 + VISIT_S;
    let token = visit::sign(&call.site.visit_key, Kind::Visit, "in", ends_s);
    Ok(lead_with_cookie(call, &landing(call, &next), VISIT_COOKIE, &token, VISIT_S))
}

/// A page of this site to lead to; anything else is its first page.
fn landing(call: &Call<'_>, next: &str) -> String {
    let prefix = &call.site.prefix;
    let inside =
        next.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('/') && !rest.starts_with("//"));
    let harmless = !next.contains(['\\', '\r', '\n']) && !next.starts_with("//") && HeaderValue::from_str(next).is_ok();
    if inside && harmless && !next.contains("/.holdfast/") { next.to_owned() } else { format!("{prefix}/") }
}

fn form_value(raw: &str) -> String {
    percent_decode_str(&raw.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn sign_out(call: &Call<'_>) -> Answer {
    let mut answer = lead_with_cookie(call, &format!("{}/", call.site.prefix), VISIT_COOKIE, "", 0);
    let other = visit::cookie(PREVIEW_COOKIE, "", &call.site.prefix, 0, call.visitor.encrypted);
    answer.headers_mut().append(SET_COOKIE, value(&other));
    answer
}

fn lead_with_cookie(call: &Call<'_>, to: &str, name: &str, token: &str, seconds: i64) -> Answer {
    let mut answer = text(StatusCode::SEE_OTHER, "");
    answer.headers_mut().insert(LOCATION, value(to));
    let cookie = visit::cookie(name, token, &call.site.prefix, seconds, call.visitor.encrypted);
    answer.headers_mut().insert(SET_COOKIE, value(&cookie));
    answer
}

fn preview(serving: &Serving, call: &Call<'_>, token: &str) -> Answer {
    let home = format!("{}/", call.site.prefix);
    if token == "end" {
        return lead_with_cookie(call, &home, PREVIEW_COOKIE, "", 0);
    }
    let now_s = serving.0.sites.clock().now_ms() / 1_000;
    if visit::check(&call.site.visit_key, Kind::Preview, token, now_s).is_none() {
        return text(StatusCode::FORBIDDEN, "This preview link has ended or is not whole. Ask for a new one.\n");
    }
    let ends_s = token.split('.').nth(1).and_then(|ends| ends.parse::<i64>().ok()).unwrap_or(now_s);
    lead_with_cookie(call, &home, PREVIEW_COOKIE, token, ends_s - now_s)
}

/// The form for a site's password.
fn form(call: &Call<'_>, status: StatusCode, message: &str) -> Answer {
    let prefix = &call.site.prefix;
    let next = if call.path.starts_with(DOORS) { format!("{prefix}/") } else { call.head.uri.path().to_owned() };
    let (next, name) = (compose::text_in_html(&next), compose::text_in_html(&call.site.name));
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{name}</title><style>:root{{color-scheme:light dark}}\
         body{{font:17px/1.6 system-ui,sans-serif;max-width:24rem;margin:4rem auto;padding:1rem}}input,button{{font:inherit;\
         width:100%;box-sizing:border-box;padding:.5rem;margin:.25rem 0}}</style></head><body><main><h1>{name}</h1>\
         <p role=\"alert\">{message}</p><form method=\"post\" action=\"{prefix}{DOORS}sign-in\">\
         <label>Password<input type=\"password\" name=\"password\" autocomplete=\"current-password\" required autofocus></label>\
         <input type=\"hidden\" name=\"next\" value=\"{next}\"><button>Open</button></form></main></body></html>\n"
    );
    let mut answer = own(status, "text/html; charset=utf-8", page.into());
    answer.headers_mut().insert(VARY, HeaderValue::from_static("authorization, cookie"));
    answer
}

fn wants_page(call: &Call<'_>) -> bool {
    call.head
        .headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

async fn search(serving: &Serving, call: &Call<'_>) -> Result<Answer> {
    let Some(ready) = call.site.ready.clone() else {
        return Ok(text(StatusCode::NOT_FOUND, "Nothing is published here.\n"));
    };
    let query = call.head.uri.query().unwrap_or_default();
    let query = query.split('&').find_map(|pair| pair.strip_prefix("q=")).map(form_value).unwrap_or_default();
    if query.len() > QUERY_BYTES_MAX {
        return Err(Error::new(ErrorKind::TooLarge, "that is too much to search for"));
    }
    let inner = &serving.0;
    let busy = |_| Error::new(ErrorKind::TooManyRequests { retry_after_s: 1 }, "too many searches at once");
    let _turn = inner.searches.try_acquire().map_err(busy)?;
    let read = || async {
        let Some(object) = ready.search else { return Ok::<_, Error>(Arc::default()) };
        let bytes = inner.whole(call.site, object).await?;
        if bytes.len() as u64 > INDEX_BYTES_MAX {
            return Err(Error::damaged("what is searched is larger than anything written there"));
        }
        let document: SearchDocument = serde_json::from_slice(&bytes)
            .map_err(|error| Error::damaged("what is searched cannot be read").with_source(error))?;
        Ok(Arc::new(document))
    };
    let document = ready.document.get_or_try_init(read).await?.clone();
    let words = query.clone();
    let found = tokio::task::spawn_blocking(move || compose::search(&document, &words)).await;
    let found = found.map_err(|error| Error::internal("a search failed").with_source(error))?;
    if !wants_page(call) {
        let json = serde_json::to_vec(&found).map_err(|error| Error::internal(error.to_string()))?;
        return Ok(own(StatusCode::OK, "application/json", json.into()));
    }
    let escape = compose::text_in_html;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>:root{{color-scheme:light dark}}\
         body{{font:17px/1.6 system-ui,sans-serif;max-width:44rem;margin:0 auto;padding:1rem}}</style></head><body><main>\
         <form role=\"search\"><input type=\"search\" name=\"q\" value=\"{0}\" aria-label=\"Search\"><button>Search</button></form>\n\
         <p>{1} found</p><ul>\n",
        escape(&query),
        found.len()
    );
    for result in &found {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<li lang=\"{}\"><a href=\"{}\">{}</a><br>{}</li>",
            escape(&result.lang),
            escape(&result.url),
            escape(&result.title),
            escape(&result.excerpt)
        );
    }
    page.push_str("</ul></main></body></html>\n");
    let page = if call.head.method == Method::HEAD { String::new() } else { page };
    Ok(own(StatusCode::OK, "text/html; charset=utf-8", page.into()))
}
