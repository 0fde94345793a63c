//! A face over the real engine, with the store in memory and the catalogue in a folder that goes with it.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "shared by tests and the example; none uses all of it")]

use bytes::Bytes;
use holdfast_auth::{Scope, Session};
use holdfast_base::{Clock, Uid};
use holdfast_blob::memory::MemoryStore;
use holdfast_dav::{DavFace, DavOptions};
use holdfast_drive::Role;
use holdfast_drive::engine::{Engine, EngineOptions};
use holdfast_meta::sqlite::{Options, SqliteCatalogue};
use holdfast_meta::{Catalogue, NewAccount};
use holdfast_seal::keys::{AccountKey, SpaceKey, random_bytes, wrap_space_key};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use tempfile::TempDir;

/// What came back, read whole.
#[derive(Debug)]
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

/// See the module.
pub struct Rig {
    pub face: DavFace,
    pub who: Arc<Session>,
    pub engine: Engine,
    pub catalogue: Arc<SqliteCatalogue>,
    clock: Arc<dyn Clock>,
    _folder: TempDir,
}

impl Rig {
    /// A drive with one account, `ana`.
    pub async fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock.clone(), DavOptions { clock, ..DavOptions::default() }).await
    }

    pub async fn with(clock: Arc<dyn Clock>, options: DavOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let catalogue = SqliteCatalogue::open(&folder.path().join("catalogue"), &Options::default()).expect("opens");
        let catalogue = Arc::new(catalogue);
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::start(catalogue.clone(), store, clock.clone(), EngineOptions::default()).await;
        let engine = engine.expect("starts");
        let who = account(&*catalogue, &*clock, "ana").await;
        let face = DavFace::new(Arc::new(engine.clone()), options);
        Self { face, who, engine, catalogue, clock, _folder: folder }
    }

    /// Makes another account.
    pub async fn account(&self, name: &str) -> Arc<Session> {
        account(&*self.catalogue, &*self.clock, name).await
    }

    /// Makes `who` a member of `ana`'s home space.
    pub async fn let_in(&self, who: &Session, role: Role) {
        let (space, membership) =
            self.catalogue.space_by_name("ana", self.who.account).await.expect("reads").expect("exists");
        let key = self.who.space_key(space.uid, &membership.expect("a member")).expect("opens");
        let wrapped = wrap_space_key(&who.key().public(), space.uid, &key).expect("wraps");
        self.catalogue.put_member(space.id, who.account, role, wrapped).await.expect("joins");
    }

    /// Ends a membership in `ana`'s home space.
    pub async fn let_out(&self, who: &Session) {
        let (space, _) = self.catalogue.space_by_name("ana", self.who.account).await.expect("reads").expect("exists");
        self.catalogue.remove_member(space.id, who.account).await.expect("leaves");
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        self.send_as(&self.who, method, path, headers, body).await
    }

    pub async fn send_as(
        &self,
        who: &Arc<Session>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        self.exchange(who, request).await
    }

    pub async fn exchange<B>(&self, who: &Arc<Session>, request: Request<B>) -> Reply
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = self.face.handle(who.clone(), request).await.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Reply { status: head.status.as_u16(), headers: head.headers, body }
    }
}

async fn account(catalogue: &dyn Catalogue, clock: &dyn Clock, name: &str) -> Arc<Session> {
    let (key, public_key) = AccountKey::generate().expect("a key");
    let uid = || Uid(random_bytes().expect("random bytes"));
    let home_uid = uid();
    let space_key = SpaceKey::generate().expect("a key");
    let new = NewAccount {
        uid: uid(),
        name: name.into(),
        admin: false,
        public_key,
        quota_bytes: None,
        slots: Vec::new(),
        home_uid,
        home_wrapped_key: wrap_space_key(&public_key, home_uid, &space_key).expect("wraps"),
        now_ms: clock.now_ms(),
    };
    let account = catalogue.create_account(new).await.expect("an account");
    Arc::new(Session::new(&account, Scope::default(), key))
}
