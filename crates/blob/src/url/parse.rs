//! From text to options.

use super::query::{Query, URL_BYTES_MAX};
use super::{Place, StoreUrl, SwiftPlace};
use crate::Secret;
use crate::layer::cache::{CACHE_BYTES_MIN, CacheOptions};
use crate::object::{self, Keys, PART_BYTES_MIN};
use crate::s3::{Conditional, CredentialSource, S3Options};
use crate::swift::{Auth, SwiftOptions};
use holdfast_base::{Error, Result};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// Bytes wait for the rest of their part in the memory that uploads work in, and a pack is ended before they have half of that, which is
/// 12 MiB: a larger part would never fill.
const PART_MIB_MAX: u64 = 10;

/// More than this would be a flood and no stream.
const PARTS_IN_FLIGHT_MAX: usize = 256;

/// A petabyte of cache is a typing error.
const CACHE_MIB_MAX: u64 = 1 << 30;

pub(super) fn parse(text: &str) -> Result<StoreUrl> {
    if text.len() > URL_BYTES_MAX {
        return Err(Error::invalid(format!("it is longer than {URL_BYTES_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid("it holds a control character"));
    }
    let (scheme, rest) = text.split_once(':').ok_or_else(|| unknown_scheme(text))?;
    match scheme {
        "fs" => parse_fs(rest),
        "s3" => parse_object_store(rest, s3),
        "swift" => parse_object_store(rest, swift),
        _ => Err(unknown_scheme(text)),
    }
}

fn unknown_scheme(text: &str) -> Error {
    let hint = if text.starts_with(['/', '.']) { format!("; for a folder, say fs:{text}") } else { String::new() };
    Error::invalid(format!("it begins with fs:, s3: or swift:{hint}"))
}

fn parse_fs(rest: &str) -> Result<StoreUrl> {
    let path = rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest);
    if path.is_empty() || path.starts_with("//") {
        return Err(Error::invalid("fs: needs a folder, as in fs:/var/lib/holdfast/packs"));
    }
    Ok(StoreUrl { place: Place::Fs(PathBuf::from(path)), cache: None })
}

/// `//NAME/PREFIX?OPTIONS`.
fn parse_object_store(rest: &str, place: impl FnOnce(&str, &str, &mut Query) -> Result<Place>) -> Result<StoreUrl> {
    let rest = rest.strip_prefix("//").ok_or_else(|| Error::invalid("after the colon come two slashes and a name"))?;
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
    if name.contains(['@', ':']) {
        return Err(Error::invalid(
            "there are no user and no port before the name: say endpoint=… or auth=…, and user=…",
        ));
    }
    if name.is_empty() {
        return Err(Error::invalid("the name of the bucket or container is missing after the two slashes"));
    }
    // So that a wrong one is known now.
    Keys::below(prefix)?;
    let mut query = Query::parse(options)?;
    let place = place(name, prefix, &mut query)?;
    let cache = cache(&mut query)?;
    query.finish()?;
    Ok(StoreUrl { place, cache })
}

fn s3(bucket: &str, prefix: &str, query: &mut Query) -> Result<Place> {
    let mut options = S3Options::new(bucket);
    prefix.clone_into(&mut options.prefix);
    options.endpoint = query.take("endpoint");
    options.region = query.take("region").unwrap_or(options.region);
    check_word("region", &options.region)?;
    options.path_style = query.flag("path_style")?;
    options.ca_file = query.path("ca_file");
    options.plain_http = query.flag("plain_http")?.unwrap_or(false);
    let profile = query.take("profile");
    options.credentials = match query.path("credentials_file") {
        Some(path) => CredentialSource::File { path, profile: profile.unwrap_or_else(|| "default".to_owned()) },
        None if profile.is_some() => return Err(Error::invalid("profile needs a credentials_file")),
        None => CredentialSource::Environment,
    };
    options.conditional = match query.take("conditional").as_deref() {
        None | Some("auto") => Conditional::Auto,
        Some("true") => Conditional::On,
        Some("false") => Conditional::Off,
        Some(other) => return Err(Error::invalid(format!("conditional={other}: it is auto, true or false"))),
    };
    options.objects = objects(query)?;
    Ok(Place::S3(Box::new(options)))
}

fn swift(container: &str, prefix: &str, query: &mut Query) -> Result<Place> {
    let auth = auth(query)?;
    let mut options = SwiftOptions::new(auth, container);
    prefix.clone_into(&mut options.prefix);
    options.region = query.take("region");
    if let Some(interface) = query.take("interface") {
        if !["public", "internal", "admin"].contains(&interface.as_str()) {
            return Err(Error::invalid(format!("interface={interface}: it is public, internal or admin")));
        }
        options.interface = interface;
    }
    options.ca_file = query.path("ca_file");
    options.plain_http = query.flag("plain_http")?.unwrap_or(false);
    options.objects = objects(query)?;
    let secret_file = query.path("secret_file");
    Ok(Place::Swift(Box::new(SwiftPlace { options, secret_file })))
}

/// How to sign in; which way is told by the options and by the address.
fn auth(query: &mut Query) -> Result<Auth> {
    let secret = Secret::new("");
    let url = query.need("auth");
    let credential = query.take("application_credential");
    let (user, user_domain) = (query.take("user"), query.take("user_domain"));
    let (project, project_domain) = (query.take("project"), query.take("project_domain"));
    let (url, missing) = (url?, |name| move || Error::invalid(format!("{name} is missing")));
    if let Some(id) = credential {
        return Ok(Auth::ApplicationCredential { url, id, secret });
    }
    let user = user.ok_or_else(missing("user"))?;
    // TempAuth's addresses end in /auth/v1.0; its users are account:user and have no project.
    if url.contains("/v1") && project.is_none() {
        return Ok(Auth::TempAuth { url, user, key: secret });
    }
    let domain = |domain: Option<String>| domain.unwrap_or_else(|| "Default".to_owned());
    Ok(Auth::Password {
        url,
        user,
        user_domain: domain(user_domain),
        project: project.ok_or_else(missing("project"))?,
        project_domain: domain(project_domain),
        password: secret,
    })
}

fn objects(query: &mut Query) -> Result<object::Options> {
    let mut options = object::Options::default();
    if let Some(part_mib) = query.number("part_mib", PART_BYTES_MIN / MIB, PART_MIB_MAX)? {
        options.part_bytes = part_mib * MIB;
    }
    if let Some(parts) = query.number("parts_in_flight", 1, PARTS_IN_FLIGHT_MAX)? {
        options.parts_in_flight_max = parts;
    }
    options.confirm = query.flag("confirm")?.unwrap_or(options.confirm);
    Ok(options)
}

fn cache(query: &mut Query) -> Result<Option<(PathBuf, CacheOptions)>> {
    let folder = query.path("cache");
    let mib = query.number("cache_mib", CACHE_BYTES_MIN / MIB, CACHE_MIB_MAX)?;
    match (folder, mib) {
        (None, Some(_)) => Err(Error::invalid("cache_mib needs a folder: cache=FOLDER")),
        (None, None) => Ok(None),
        (Some(folder), mib) => {
            let options = mib.map_or_else(CacheOptions::default, |mib| CacheOptions { bytes_max: mib * MIB });
            Ok(Some((folder, options)))
        }
    }
}

/// What goes into signatures and host names.
fn check_word(name: &str, word: &str) -> Result<()> {
    if !word.is_empty() && word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Ok(());
    }
    Err(Error::invalid(format!("{name}={word:?}: it is made of letters, digits and '-'")))
}
