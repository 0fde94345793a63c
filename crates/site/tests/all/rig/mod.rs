//! A real drive in a temporary folder with two people, its sites, and a clock that is moved by hand.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "shared by tests; none uses all of it")]

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use holdfast_auth::accounts::{NewPerson, Proof};
use holdfast_auth::{Accounts, AuthOptions, Authenticator, Secret, Session, SitesKey};
use holdfast_base::{DrivePath, ManualClock, Result};
use holdfast_blob::memory::MemoryStore;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_drive::{Conditions, Drive, Location, WriteOptions};
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_seal::keys::Argon2Params;
use holdfast_site::serve::{Checks, Door, Serving, Visitor};
use holdfast_site::{Publication, Published, SettingsChange, Sites};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

pub const PASSWORD: &str = "correct horse battery staple, twice";
pub const HOUR_MS: i64 = 3_600_000;

/// What came back, read whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("visible ASCII"))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }
}

pub struct Rig {
    pub engine: Engine,
    pub catalogue: Arc<SqliteCatalogue>,
    pub accounts: Accounts,
    pub authenticator: Authenticator,
    pub clock: Arc<ManualClock>,
    pub sites: Sites,
    pub key: SitesKey,
    pub serving: Serving,
    pub ana: Arc<Session>,
    pub ben: Arc<Session>,
    pub folder: TempDir,
}

impl Rig {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let catalogue = SqliteCatalogue::open(&folder.path().join("catalogue.db"), &Options::default());
        let catalogue = Arc::new(catalogue.expect("opens"));
        let clock = Arc::new(ManualClock::new(1_800_000_000_000));
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::start(catalogue.clone(), store, clock.clone(), EngineOptions::default()).await;
        let engine = engine.expect("starts");
        let cheap =
            AuthOptions { argon2: Argon2Params { memory_kib: 8, passes: 1, lanes: 1 }, ..AuthOptions::default() };
        let authenticator = Authenticator::new(catalogue.clone(), clock.clone(), cheap).expect("makes");
        let accounts = authenticator.accounts();
        let (ana, ben) = (sign_up(&accounts, "ana").await, sign_up(&accounts, "ben").await);
        let key = SitesKey::generate().expect("a key");
        let sites = sites(&engine, &accounts, &key, &clock);
        let serving = Serving::new(sites.clone(), checks(&authenticator), 16 << 20).expect("makes");
        Self { engine, catalogue, accounts, authenticator, clock, sites, key, serving, ana, ben, folder }
    }

    /// Another node over the same drive, that knows nothing yet.
    pub fn another_node(&self) -> Serving {
        let sites = sites(&self.engine, &self.accounts, &self.key, &self.clock);
        Serving::new(sites, checks(&self.authenticator), 16 << 20).expect("makes")
    }

    pub async fn put(&self, path: &str, content: impl Into<Bytes>) {
        let content = content.into();
        let at = at("ana", path);
        let mut folder = DrivePath::root();
        for name in at.path.parent().expect("a parent").names() {
            folder = folder.join(name.clone()).expect("joins");
            let place = Location { space: "ana".into(), path: folder.clone() };
            let _ = self.engine.make_folder(&self.ana, &place, Conditions::default()).await;
        }
        let options = WriteOptions { length: Some(content.len() as u64), ..WriteOptions::default() };
        let body = stream::once(std::future::ready(Ok(content))).boxed();
        self.engine.write(&self.ana, &at, options, body).await.expect("writes");
    }

    /// Puts a folder of this disk into the drive.
    pub async fn put_tree(&self, from: &Path, to: &str) {
        let mut open = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = open.pop() {
            for entry in std::fs::read_dir(from).expect("reads") {
                let entry = entry.expect("reads");
                let to = format!("{to}/{}", entry.file_name().to_str().expect("UTF-8"));
                if entry.file_type().expect("has one").is_dir() {
                    open.push((entry.path(), to));
                } else {
                    self.put(&to, std::fs::read(entry.path()).expect("reads")).await;
                }
            }
        }
    }

    /// The example site, with generated pictures, in `/example`.
    pub async fn put_example(&self) {
        self.put_tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/example"), "/example").await;
        self.put("/example/pictures/one.png", noise(1, 30_000)).await;
        self.put("/example/pictures/large.bin", noise(2, 5 << 20)).await;
    }

    pub fn publication(site: &str, folder: &str) -> Publication {
        Publication {
            from: at("ana", folder),
            site: site.into(),
            note: String::new(),
            at_ms: None,
            draft: false,
            check: false,
            settings: SettingsChange::default(),
        }
    }

    pub async fn publish(&self, site: &str, folder: &str) -> Result<Published> {
        let published = self.sites.publish(&self.ana, Self::publication(site, folder)).await?;
        self.serving.look().await?;
        Ok(published)
    }

    /// Publishes the example under a host.
    pub async fn publish_example(&self) -> Published {
        self.put_example().await;
        let settings = SettingsChange { hosts: Some(vec!["site.example".into()]), ..SettingsChange::default() };
        let publication = Publication { settings, ..Self::publication("ex", "/example") };
        let published = self.sites.publish(&self.ana, publication).await.expect("publishes");
        self.serving.look().await.expect("looks");
        published
    }

    pub async fn get(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        request(&self.serving, "GET", host, path, headers, "").await
    }
}

fn sites(engine: &Engine, accounts: &Accounts, key: &SitesKey, clock: &Arc<ManualClock>) -> Sites {
    let key = SitesKey::parse(key.text().expose()).expect("parses");
    Sites::new(Arc::new(engine.clone()), accounts.clone(), key, clock.clone(), vec!["drive.example".into()])
}

fn checks(authenticator: &Authenticator) -> Checks {
    let (sign_in, password) = (authenticator.clone(), authenticator.clone());
    Checks {
        sign_in: Arc::new(move |credential, peer| {
            let authenticator = sign_in.clone();
            Box::pin(async move { authenticator.sign_in(&credential, Some(peer)).await })
        }),
        password: Arc::new(move |site, slot, secret, peer| {
            let authenticator = password.clone();
            Box::pin(async move { authenticator.check_site_password(site, &slot, &secret, Some(peer)).await })
        }),
    }
}

pub async fn request(
    serving: &Serving,
    method: &str,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    request_at(serving, Door::Sites, true, (method, host, path), headers, body).await
}

pub async fn request_at(
    serving: &Serving,
    door: Door,
    may_send_secrets: bool,
    (method, host, path): (&str, &str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request");
    let visitor = Visitor { address: [192, 0, 2, 7].into(), encrypted: may_send_secrets, may_send_secrets };
    let (head, body) = serving.answer(door, visitor, request).await.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    Reply { status: head.status.as_u16(), headers: head.headers, body }
}

pub fn at(space: &str, path: &str) -> Location {
    Location { space: space.to_owned(), path: DrivePath::parse(path).expect("a path") }
}

/// Bytes that do not shrink, different for every seed.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

async fn sign_up(accounts: &Accounts, name: &str) -> Arc<Session> {
    let password = Secret::new(PASSWORD);
    let person = NewPerson { name: name.to_owned(), password: Some(password.clone()), ..NewPerson::default() };
    accounts.create(person).await.expect("makes an account");
    Arc::new(accounts.open(name, Proof::Password(&password)).await.expect("opens it"))
}
