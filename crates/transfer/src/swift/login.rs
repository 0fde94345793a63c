//! How one signs in: by what is given on the command line, or else by the environment variables that the tools of OpenStack and Swift use.

use crate::other::Login;
use crate::other::wire::must_be_private;
use holdfast_base::{Error, Result};
use holdfast_blob::Secret;
use holdfast_blob::swift::Auth;
use http::Uri;

fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// How to sign in, and the region.
pub(super) fn of(login: &Login) -> Result<(Auth, Option<String>)> {
    of_with(login, variable)
}

fn of_with(login: &Login, variable: impl Fn(&[&str]) -> Option<String>) -> Result<(Auth, Option<String>)> {
    let missing = |what: &str| Error::invalid(format!("{what} is missing"));
    let url = login.endpoint.clone().or_else(|| variable(&["OS_AUTH_URL", "ST_AUTH"]));
    let url = url.ok_or_else(|| {
        missing("--endpoint (the address that signs in), or OS_AUTH_URL or ST_AUTH in the environment,")
    })?;
    must_be_private(&url.parse().map_err(|_| Error::invalid(format!("--endpoint {url} is no address")))?)?;
    let region = login.region.clone().or_else(|| variable(&["OS_REGION_NAME"]));
    if let (None, Some(id), Some(secret)) =
        (&login.user, variable(&["OS_APPLICATION_CREDENTIAL_ID"]), variable(&["OS_APPLICATION_CREDENTIAL_SECRET"]))
    {
        return Ok((Auth::ApplicationCredential { url, id, secret: Secret::new(secret) }, region));
    }
    let user = login.user.clone().or_else(|| variable(&["OS_USERNAME", "ST_USER"]));
    let user = user.ok_or_else(|| missing("--user, or OS_USERNAME or ST_USER in the environment,"))?;
    let password = login.password.as_ref().map(|password| Secret::new(password.expose()));
    let password = password.or_else(|| variable(&["OS_PASSWORD", "ST_KEY"]).map(Secret::new));
    let password = password.ok_or_else(|| missing("--password-file, or OS_PASSWORD or ST_KEY in the environment,"))?;
    // Version 1 has accounts, and no projects.
    if url.contains("/v1") || !(url.contains("/v3") || variable(&["OS_PROJECT_NAME"]).is_some()) {
        return Ok((Auth::TempAuth { url, user, key: password }, region));
    }
    let project = variable(&["OS_PROJECT_NAME"]).ok_or_else(|| missing("OS_PROJECT_NAME in the environment"))?;
    let domain = |name| variable(&[name]).unwrap_or_else(|| "Default".to_owned());
    let (user_domain, project_domain) = (domain("OS_USER_DOMAIN_NAME"), domain("OS_PROJECT_DOMAIN_NAME"));
    Ok((Auth::Password { url, user, user_domain, project, project_domain, password }, region))
}

/// The server that signs in, as it is shown.
pub(super) fn origin(auth: &Auth) -> Result<String> {
    let (Auth::TempAuth { url, .. } | Auth::Password { url, .. } | Auth::ApplicationCredential { url, .. }) = auth;
    let uri: Uri = url.parse().map_err(|_| Error::invalid(format!("{url} is no address")))?;
    let user = match auth {
        // Accounts of one server are places of their own.
        Auth::TempAuth { user, .. } => user.split(':').next().unwrap_or_default(),
        Auth::Password { project, .. } => project,
        Auth::ApplicationCredential { id, .. } => id,
    };
    Ok(format!("swift:{}/{user}", uri.authority().map_or("", |authority| authority.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_signs_in_how_follows_from_what_is_given() {
        let login = |url: &str| Login {
            endpoint: Some(url.into()),
            user: Some("a:b".into()),
            password: Some(holdfast_auth::Secret::new("s")),
            ..Login::default()
        };
        let none = |_: &[&str]| None;
        let project = |names: &[&str]| names.contains(&"OS_PROJECT_NAME").then(|| "p".to_owned());
        assert!(matches!(of_with(&login("https://h/auth/v1.0"), project).expect("signs in").0, Auth::TempAuth { .. }));
        assert!(matches!(of_with(&login("https://h:5000/v3"), project).expect("signs in").0, Auth::Password { .. }));
        assert!(matches!(of_with(&login("https://h:5000"), project).expect("signs in").0, Auth::Password { .. }));
        assert!(of_with(&login("https://h:5000/v3"), none).is_err(), "a project is missing");
        assert!(of_with(&login("http://elsewhere.example.org/v3"), project).is_err(), "others would see it");
        assert!(of_with(&Login::default(), none).is_err());
        let all = |names: &[&str]| {
            Some(if names[0] == "OS_AUTH_URL" { "https://h/v3".to_owned() } else { names[0].to_owned() })
        };
        assert!(matches!(of_with(&Login::default(), all).expect("signs in").0, Auth::ApplicationCredential { .. }));
    }
}
