//! Storing what a snapshot needs and its predecessor had not.

use super::gather::Folder;
use crate::compose::Composed;
use crate::index::{Encoded, Index, Route, Source};
use crate::layout::ObjectId;
use crate::limits::{STORING_AT_ONCE, WHOLE_BYTES_MAX};
use crate::store::{Store, read_whole};
use crate::variants;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{StreamExt, stream};
use holdfast_base::{ByteRange, Error, Result};
use holdfast_drive::Node;
use std::collections::{BTreeMap, HashMap};

/// What was stored.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) routes: BTreeMap<String, Route>,
    pub(crate) sources: BTreeMap<String, Source>,
    pub(crate) search: Option<ObjectId>,
    pub(crate) new_files: usize,
    pub(crate) new_bytes: u64,
}

/// One file of a snapshot, stored.
struct Done {
    route: String,
    entry: Route,
    source: Option<(String, Source)>,
    new: bool,
}

pub(crate) struct Storing<'a> {
    source: &'a Store,
    store: &'a Store,
    key: [u8; 32],
    now_ms: i64,
    base: Option<Index>,
    /// Content of the base, with its compressed forms.
    known: HashMap<ObjectId, (u64, Vec<Encoded>)>,
}

impl<'a> Storing<'a> {
    pub(crate) fn new(source: &'a Store, store: &'a Store, base: Option<Index>, key: [u8; 32], now_ms: i64) -> Self {
        let routes = base.iter().flat_map(|base| base.routes.values());
        let mut known: HashMap<_, _> =
            routes.map(|route| (route.object, (route.bytes, route.encodings.clone()))).collect();
        if let Some(search) = base.as_ref().and_then(|base| base.search) {
            known.entry(search).or_insert((0, Vec::new()));
        }
        Self { source, store, key, now_ms, base, known }
    }

    /// Stores everything, several files at once.
    pub(crate) async fn all(&self, folder: &Folder, composed: &Composed) -> Result<Stored> {
        let mut work: Vec<BoxFuture<'_, Result<Done>>> = Vec::new();
        for (path, node) in &folder.plain {
            work.push(self.plain(folder, path, node).boxed());
        }
        for (path, bytes) in &composed.as_is {
            let kind = kind_of(path);
            let source = folder.text_nodes.get(path);
            work.push(
                self.at_hand(format!("/{path}"), bytes.clone(), kind, false, source.map(|node| (path.as_str(), node)))
                    .boxed(),
            );
        }
        for output in &composed.outputs {
            let kind = output.kind.clone();
            work.push(self.at_hand(output.route.clone(), output.bytes.clone(), kind, output.listing, None).boxed());
        }
        let mut stored = Stored::default();
        let mut done = stream::iter(work).buffer_unordered(STORING_AT_ONCE);
        while let Some(done) = done.next().await {
            stored.add(done?);
        }
        drop(done);
        if !composed.search.is_empty() {
            let text = serde_json::to_vec(&composed.search).map_err(|error| Error::internal(error.to_string()))?;
            let object = ObjectId::of(&self.key, &text);
            if !self.known.contains_key(&object) {
                self.store.put(&self.key, text.into()).await?;
            }
            stored.search = Some(object);
        }
        Ok(stored)
    }

    async fn plain(&self, folder: &Folder, path: &str, node: &Node) -> Result<Done> {
        let (route, kind) = (format!("/{path}"), kind_of(path));
        let before = self.base.as_ref().and_then(|base| base.sources.get(path));
        if let Some(source) = before.filter(|source| source.node == node.id && source.seq == node.seq)
            && let Some((bytes, encodings)) = self.known.get(&source.object)
        {
            let entry = self.entry(&route, source.object, *bytes, kind, encodings.clone(), false);
            return Ok(Done { entry, route, source: Some((path.to_owned(), source.clone())), new: false });
        }
        let walk = self.source.drive.walk(&self.source.who, &folder.location(path)?).await?;
        let now =
            walk.node().cloned().ok_or_else(|| Error::conflict(format!("{path} vanished while it was published")))?;
        if now.size <= WHOLE_BYTES_MAX {
            let bytes = read_whole(&*self.source.drive, &self.source.who, &walk).await?;
            return self.at_hand(route, bytes, kind, false, Some((path, &now))).await;
        }
        let body = self.source.drive.read(&self.source.who, &walk, ByteRange::whole(now.size)).await?;
        let object = self.store.put_stream(&self.key, body, now.size, self.now_ms).await?;
        let source = Source { node: now.id, seq: now.seq, object };
        let entry = self.entry(&route, object, now.size, kind, Vec::new(), false);
        Ok(Done { entry, route, source: Some((path.to_owned(), source)), new: !self.known.contains_key(&object) })
    }

    async fn at_hand(
        &self,
        route: String,
        bytes: Bytes,
        kind: String,
        listing: bool,
        source: Option<(&str, &Node)>,
    ) -> Result<Done> {
        let object = ObjectId::of(&self.key, &bytes);
        let known = self.known.get(&object);
        let encodings = if let Some((_, encodings)) = known {
            encodings.clone()
        } else {
            self.store.put(&self.key, bytes.clone()).await?;
            self.compressed(&bytes, &kind).await?
        };
        let entry = self.entry(&route, object, bytes.len() as u64, kind, encodings, listing);
        let source = source.map(|(path, node)| (path.to_owned(), Source { node: node.id, seq: node.seq, object }));
        Ok(Done { route, entry, source, new: known.is_none() })
    }

    async fn compressed(&self, bytes: &Bytes, kind: &str) -> Result<Vec<Encoded>> {
        if !variants::wanted(kind, bytes.len() as u64) {
            return Ok(Vec::new());
        }
        let content = bytes.clone();
        let forms = tokio::task::spawn_blocking(move || variants::compress(&content)).await;
        let forms = forms.map_err(|error| Error::internal("compressing failed").with_source(error))??;
        let mut encodings = Vec::new();
        for (encoding, form) in forms {
            let bytes = form.len() as u64;
            let object = self.store.put(&self.key, form.into()).await?;
            encodings.push(Encoded { encoding: encoding.into(), object, bytes });
        }
        Ok(encodings)
    }

    /// An entry, modified when the base has other content there.
    fn entry(
        &self,
        route: &str,
        object: ObjectId,
        bytes: u64,
        kind: String,
        encodings: Vec<Encoded>,
        listing: bool,
    ) -> Route {
        let before =
            self.base.as_ref().and_then(|base| base.routes.get(route)).filter(|before| before.object == object);
        let modified_ms = before.map_or(self.now_ms, |before| before.modified_ms);
        Route { object, bytes, modified_ms, kind, encodings, listing }
    }
}

impl Stored {
    fn add(&mut self, done: Done) {
        if done.new && !done.entry.listing {
            self.new_files += 1;
            self.new_bytes += done.entry.bytes;
        }
        self.sources.extend(done.source);
        self.routes.insert(done.route, done.entry);
    }
}

fn kind_of(path: &str) -> String {
    let (kind, charset) = holdfast_http::mime_of_name(path);
    let charset = if charset.is_empty() && kind.ends_with("/javascript") { "; charset=utf-8" } else { charset };
    format!("{kind}{charset}")
}
