//! Writing down who did what: one place for every route.
//!
//! A route that changes something has a name in [`ACTIONS`]. Its request runs with a note about it, which the transaction that changes
//! accounts, credentials, spaces or members writes itself ([`holdfast_meta::audit`]); what is left is handed to the journal when the
//! answer is known. A handler says more about it with [`holdfast_meta::audit::amend`].

use crate::cookie::Visitor;
use crate::{Api, PREFIX};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use holdfast_auth::Session;
use holdfast_meta::audit::noting;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// What is written down of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Always, but for requests that nobody let in: those are written down by who looks at credentials.
    Always,
    /// Always: the route looks at the credential itself.
    Entrance,
    /// Not at all: it asks a question.
    Never,
    /// If changes of files are.
    Files,
}

/// Routes, below the prefix, and what they do. A test knows that no route that changes something is missing.
const ACTIONS: &[(&str, &str, &str, Kept)] = &[
    ("POST", "/session", "session.begin", Kept::Always),
    ("POST", "/session/passkey", "signin.passkey", Kept::Entrance),
    ("POST", "/session/passkey/question", "signin.ask", Kept::Never),
    ("POST", "/session/provider", "signin.ask", Kept::Never),
    ("POST", "/session/provider/answer", "signin.provider", Kept::Entrance),
    ("POST", "/session/provider/passphrase", "signin.provider", Kept::Entrance),
    ("POST", "/session/provider/leave", "signout.ask", Kept::Never),
    ("POST", "/session/recovery", "password.recover", Kept::Entrance),
    ("DELETE", "/session", "session.end", Kept::Always),
    ("DELETE", "/sessions/{id}", "session.end", Kept::Always),
    ("PUT", "/me/password", "password.change", Kept::Always),
    ("POST", "/me/codes", "codes.ask", Kept::Never),
    ("PUT", "/me/codes", "codes.switch-on", Kept::Entrance),
    ("POST", "/me/codes/remove", "codes.switch-off", Kept::Entrance),
    ("POST", "/me/recovery-code", "recovery-code.make", Kept::Entrance),
    ("POST", "/me/passkeys", "passkey.add", Kept::Entrance),
    ("POST", "/me/passkeys/question", "passkey.ask", Kept::Never),
    ("PATCH", "/me/passkeys/{id}", "passkey.rename", Kept::Always),
    ("POST", "/me/passkeys/{id}/remove", "passkey.remove", Kept::Entrance),
    ("POST", "/me/identities", "identity.link", Kept::Entrance),
    ("POST", "/me/identities/begin", "identity.ask", Kept::Never),
    ("DELETE", "/me/identities/{id}", "identity.unlink", Kept::Always),
    ("POST", "/shares", "share.make", Kept::Always),
    ("PATCH", "/shares/{id}", "share.change", Kept::Always),
    ("DELETE", "/shares/{id}", "share.remove", Kept::Always),
    ("POST", "/links/{id}/session", "link.open", Kept::Entrance),
    ("DELETE", "/links/{id}/session", "link.close", Kept::Always),
    ("PUT", "/spaces/{space}/members/{account}", "member.set", Kept::Always),
    ("DELETE", "/spaces/{space}/members/{account}", "member.remove", Kept::Always),
    ("POST", "/tokens", "token.make", Kept::Always),
    ("DELETE", "/tokens/{id}", "token.revoke", Kept::Always),
    ("POST", "/accounts", "account.make", Kept::Always),
    ("PATCH", "/accounts/{name}", "account.change", Kept::Always),
    ("DELETE", "/accounts/{name}/factors", "account.reset-factors", Kept::Always),
    ("POST", "/accounts/{name}/sign-out", "account.sign-out", Kept::Always),
    ("POST", "/admin/spaces", "space.make", Kept::Always),
    ("PATCH", "/admin/spaces/{space}", "space.change", Kept::Always),
    ("POST", "/admin/reclaim", "reclaim.ask", Kept::Always),
    ("POST", "/admin/jobs/{job}/runs", "job.start", Kept::Always),
    ("POST", "/admin/jobs/{job}/runs/{run}/stop", "job.stop", Kept::Always),
    ("POST", "/admin/jobs/{job}/preview", "job.preview", Kept::Always),
    ("POST", "/functions/{name}/invoke", "function.invoke", Kept::Always),
    ("GET", "/admin/audit/export", "audit.export", Kept::Always),
    ("DELETE", "/spaces/{space}/trash", "trash.purge", Kept::Always),
    ("DELETE", "/spaces/{space}/trash/{entry}", "trash.purge", Kept::Always),
    ("POST", "/sites/{site}/publish", "site.publish", Kept::Always),
    ("POST", "/sites/{site}/rollback", "site.rollback", Kept::Always),
    ("POST", "/sites/{site}/unpublish", "site.unpublish", Kept::Always),
    ("POST", "/sites/{site}/preview", "site.preview", Kept::Always),
    ("PATCH", "/sites/{site}", "site.change", Kept::Always),
    ("DELETE", "/sites/{site}", "site.remove", Kept::Always),
    ("POST", "/folders/{space}/{path}", "file.make-folder", Kept::Files),
    ("PUT", "/content/{space}/{path}", "file.write", Kept::Files),
    ("POST", "/move", "file.move", Kept::Files),
    ("POST", "/copy", "file.copy", Kept::Files),
    ("POST", "/remove", "file.remove", Kept::Files),
    ("POST", "/tags", "file.tag", Kept::Files),
    ("POST", "/searches", "search.save", Kept::Files),
    ("PATCH", "/searches/{id}", "search.change", Kept::Files),
    ("DELETE", "/searches/{id}", "search.remove", Kept::Files),
    ("POST", "/archive", "file.archive", Kept::Files),
    ("POST", "/spaces/{space}/trash/{entry}", "file.restore", Kept::Files),
    ("POST", "/spaces/{space}/versions/restore", "file.restore-version", Kept::Files),
    ("POST", "/uploads", "file.upload", Kept::Files),
    ("PATCH", "/uploads/{id}", "file.upload-part", Kept::Files),
    ("POST", "/uploads/{id}", "file.upload-part", Kept::Files),
    ("DELETE", "/uploads/{id}", "file.upload-cancel", Kept::Files),
    ("POST", "/uploads/{id}/finish", "file.upload-finish", Kept::Files),
];

/// What is to be written of a route.
fn action(method: &str, route: &str) -> Option<(&'static str, Kept)> {
    let route = route.strip_prefix(PREFIX)?;
    // Places are routed by several forms of one address.
    let is = |known: &str| known == route || known.strip_suffix("/{path}").is_some_and(|base| route.starts_with(base));
    let found = ACTIONS.iter().find(|(of, known, ..)| *of == method && is(known));
    found.map(|(_, _, action, kept)| (*action, *kept))
}

/// What an address is about: what it has where its route has names in braces.
fn object(route: &str, path: &str) -> String {
    let mut segments = path.split('/');
    let mut found = Vec::new();
    for part in route.split('/') {
        if part.starts_with("{*") {
            found.extend(segments.by_ref());
        } else if let Some(segment) = segments.next().filter(|_| part.starts_with('{')) {
            found.push(segment);
        }
    }
    percent_decode_str(&found.join("/")).decode_utf8_lossy().into_owned()
}

/// Runs a request and has it written down.
pub(crate) async fn keep(State(api): State<Api>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let Some((action, kept)) = action(request.method().as_str(), route) else { return next.run(request).await };
    if kept == Kept::Never || kept == Kept::Files && !api.journal.keeps_files() {
        return next.run(request).await;
    }
    let account = request.extensions().get::<Arc<Session>>().map_or("", |session| &session.name);
    let address = request.extensions().get::<Visitor>().map(|visitor| visitor.address);
    let mut note = api.journal.note(account, address, action);
    note.object = object(route, request.uri().path());
    let (answer, left) = noting(note, next.run(request)).await;
    if let Some(mut note) = left.filter(|_| kept == Kept::Entrance || answer.status() != StatusCode::UNAUTHORIZED) {
        if !answer.status().is_success() {
            answer.status().as_str().clone_into(&mut note.result);
        }
        api.journal.add(note);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_route_that_changes_something_is_missing_and_none_is_named_that_is_not_there() {
        let routes: Vec<(&str, &str)> =
            include_str!("../routes.txt").lines().filter_map(|line| line.split_once(' ')).collect();
        for (method, route) in &routes {
            let reads = matches!(*method, "GET" | "HEAD" | "OPTIONS");
            assert!(reads || action(method, route).is_some(), "{method} {route}");
        }
        for (method, route, ..) in ACTIONS {
            let route = format!("{PREFIX}{route}");
            assert!(routes.contains(&(*method, route.as_str())), "{method} {route}");
        }
        assert!(action("PUT", "/api/v1/content/{space}/{path}/{*rest}").is_some());
    }

    #[test]
    fn an_entry_says_what_it_is_about() {
        let route = |rest: &str| format!("{PREFIX}{rest}");
        assert_eq!(object(&route("/accounts/{name}"), "/api/v1/accounts/ben%20b"), "ben b");
        assert_eq!(object(&route("/sites/{site}/publish"), "/api/v1/sites/blog/publish"), "blog");
        assert_eq!(object(&route("/content/{space}/{path}/{*rest}"), "/api/v1/content/ana/a/b/c"), "ana/a/b/c");
        assert_eq!(object(&route("/session"), "/api/v1/session"), "");
    }
}
