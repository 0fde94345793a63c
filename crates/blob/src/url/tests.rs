//! Addresses that are understood, and what is said about those that are not.

use super::*;
use crate::s3::{Conditional, CredentialSource};

fn refused(text: &str) -> String {
    StoreUrl::parse(text).expect_err(text).message().to_owned()
}

#[test]
fn a_folder_is_named_with_or_without_slashes() {
    for text in ["fs:/var/packs", "fs:///var/packs"] {
        let Place::Fs(path) = StoreUrl::parse(text).expect(text).place else { panic!("{text}") };
        assert_eq!(path, PathBuf::from("/var/packs"));
    }
    assert!(StoreUrl::parse("fs:packs").is_ok());
    assert!(StoreUrl::parse("fs:").is_err());
}

#[test]
fn every_option_of_s3_arrives() {
    let text = "s3://bucket/a/b?endpoint=https://s3.example.org:8333&region=eu-1&path_style=false&ca_file=/ca.pem&plain_http=true\
        &credentials_file=/keys&profile=drive&conditional=false&part_mib=10&parts_in_flight=9&confirm=false&cache=/c&cache_mib=64";
    let url = StoreUrl::parse(text).expect("parses");
    assert_eq!(url.cache, Some((PathBuf::from("/c"), CacheOptions { bytes_max: 64 << 20 })));
    let Place::S3(options) = url.place else { panic!("S3") };
    assert_eq!(options.endpoint.as_deref(), Some("https://s3.example.org:8333"));
    assert_eq!((options.bucket.as_str(), options.prefix.as_str(), options.region.as_str()), ("bucket", "a/b", "eu-1"));
    assert_eq!((options.path_style, options.plain_http), (Some(false), true));
    assert_eq!(options.ca_file, Some(PathBuf::from("/ca.pem")));
    assert_eq!(options.credentials, CredentialSource::File { path: "/keys".into(), profile: "drive".into() });
    assert_eq!(options.conditional, Conditional::Off);
    let objects = crate::object::Options { part_bytes: 10 << 20, parts_in_flight_max: 9, confirm: false };
    assert_eq!(options.objects, objects);
}

#[test]
fn the_way_to_sign_in_to_swift_follows_from_what_is_given() {
    let auth = |text: &str| {
        let Place::Swift(place) = StoreUrl::parse(text).expect(text).place else { panic!("{text}") };
        place.options.auth
    };
    let temp = auth("swift://c?auth=http://127.0.0.1:8080/auth/v1.0&user=test:tester");
    assert!(matches!(temp, Auth::TempAuth { user, .. } if user == "test:tester"));
    let password = auth("swift://c/p?auth=https://k.example.org/v3&user=u&project=p&project_domain=d");
    let Auth::Password { user_domain, project_domain, .. } = password else { panic!("a password") };
    assert_eq!((user_domain.as_str(), project_domain.as_str()), ("Default", "d"));
    let credential = auth("swift://c?auth=https://k.example.org&application_credential=abc");
    assert!(matches!(credential, Auth::ApplicationCredential { id, .. } if id == "abc"));
    assert!(refused("swift://c?auth=https://k.example.org/v3&user=u").contains("project is missing"));
    assert!(refused("swift://c?user=u").contains("auth is missing"));
}

#[test]
fn a_wrong_option_is_answered_with_the_nearest_there_is() {
    assert!(refused("s3://bucket?endpont=https://x").contains("do you mean \"endpoint\"?"));
    assert!(refused("s3://bucket?path-style=true").contains("do you mean \"path_style\"?"));
    assert!(refused("swift://c?auth=https://k&user=u&project=p&secretfile=/x").contains("\"secret_file\""));
    assert!(refused("s3://bucket?zzzzzzzz=1").contains("there are endpoint, region"));
}

#[test]
fn secrets_are_refused_and_not_repeated() {
    for text in [
        "s3://bucket?secret_access_key=hunter2",
        "s3://key:hunter2@bucket/",
        "swift://c?auth=https://k&user=u&project=p&password=hunter2",
    ] {
        let message = refused(text);
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert!(refused("s3://bucket?secret_key=x").contains("credentials_file=FILE"));
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    for (text, reason) in [
        ("/var/packs", "say fs:/var/packs"),
        ("http://x", "fs:, s3: or swift:"),
        ("s3:bucket", "two slashes"),
        ("s3://", "name of the bucket"),
        ("s3://bucket/a b", "cannot be a prefix"),
        ("s3://bucket?region=a&region=b", "twice"),
        ("s3://bucket?part_mib=1", "from 5 to 10"),
        ("s3://bucket?part_mib=32", "from 5 to 10"),
        ("s3://bucket?confirm=yes", "true or false"),
        ("s3://bucket?profile=x", "credentials_file"),
        ("s3://bucket?cache_mib=64", "cache=FOLDER"),
        ("s3://bucket?region=a%20b", "letters, digits"),
        ("s3://bucket?region=%ff", "UTF-8"),
        ("s3://bucket\n", "control character"),
        ("swift://c?auth=https://k&user=u&project=p&interface=x", "public, internal or admin"),
    ] {
        let message = refused(text);
        assert!(message.contains(reason), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_folder_opens_and_a_missing_secret_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = StoreUrl::parse(&format!("fs:{}/packs", folder.path().display())).expect("parses");
    let store = url.open().await.expect("opens");
    assert_eq!((store.kind(), url.kind()), ("fs", "fs"));
    let missing = folder.path().join("missing").display().to_string();
    let url = StoreUrl::parse(&format!("s3://bucket?endpoint=http://127.0.0.1:1&credentials_file={missing}"));
    let error = url.expect("parses").open().await.err().expect("no such file");
    assert!(error.message().contains(&missing), "{error}");
}
