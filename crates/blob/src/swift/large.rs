//! Static large objects (Swift API v1, "Large objects"): segments in a container of their own, and a manifest that names
//! them with their sums and lengths, which Swift verifies when it takes the manifest.
//!
//! Segments of the pack `KEY` are `KEY/MARK/NUMBER`: the mark is that of the pack's manifest, so the sweep can tell
//! segments in use from those of a try that failed, also when both are of one pack.

use super::call::{Call, Target};
use super::listing::entries;
use super::{Head, LIST_BYTES_MAX, MARK_HEADER, SwiftObjects};
use crate::http::Payload;
use crate::object::{Body, PartSent, hex};
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use holdfast_base::{Error, Result};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Objects of a list read at once.
const PAGE: usize = 1_000;

/// Requests made at once where one is needed for each of several packs.
const SIDE_BY_SIDE: usize = 8;

fn segment(large: &str, number: u32) -> String {
    format!("{large}/{number:08}")
}

impl SwiftObjects {
    pub(super) async fn make_segments_container(&self) -> Result<()> {
        let answer = self.swift.send(Call::new(Method::HEAD, Target::Segments)).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        let answer = self.swift.send(Call::new(Method::PUT, Target::Segments)).await?;
        if answer.status.is_success() {
            return answer.finish().await;
        }
        Err(self.swift.failure(answer, Target::Segments).await.context("making the container of segments"))
    }

    pub(super) async fn put_segment(&self, large: &str, number: u32, body: Body) -> Result<PartSent> {
        let bytes = body.payload.bytes();
        let key = segment(large, number);
        // Without a condition: sent twice it is the same.
        let tag = hex(&body.md5);
        let call = Call::new(Method::PUT, Target::Segment(&key)).header("etag", &tag).body(body.payload);
        self.put(call).await?;
        Ok(PartSent { number, bytes, tag })
    }

    pub(super) async fn put_manifest(&self, key: &str, large: &str, parts: &[PartSent], mark: &str) -> Result<()> {
        let segments: Vec<Value> = parts
            .iter()
            .map(|part| {
                let path = self.swift.path(Target::Segment(&segment(large, part.number)));
                json!({"path": path, "etag": part.tag, "size_bytes": part.bytes})
            })
            .collect();
        let manifest = Value::Array(segments).to_string();
        let call = Call::new(Method::PUT, Target::Object(key))
            .query("multipart-manifest", "put")
            .header("if-none-match", "*")
            .header("content-type", "application/octet-stream")
            .header(MARK_HEADER, mark)
            .body(Payload::from(manifest));
        self.put(call).await
    }

    /// Removes a manifest and the segments it names; Swift removes the manifest last, so it can be repeated.
    pub(super) async fn delete_large(&self, key: &str) -> Result<()> {
        let call = Call::new(Method::DELETE, Target::Object(key))
            .query("multipart-manifest", "delete")
            .header("accept", "application/json");
        let answer = self.swift.send(call).await?;
        match answer.status {
            StatusCode::OK => check_bulk(&answer.text(LIST_BYTES_MAX).await?),
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => answer.finish().await,
            _ => Err(self.swift.failure(answer, Target::Object(key)).await),
        }
    }

    pub(super) async fn delete_several(&self, keys: &[String]) -> Result<()> {
        let heads = keys.iter().map(|key| self.head_of(key).boxed()).collect::<Vec<_>>();
        let heads: Vec<_> = stream::iter(heads).buffer_unordered(SIDE_BY_SIDE).try_collect().await?;
        let mut plain = Vec::new();
        for (key, head) in heads {
            match head {
                None => {}
                Some(head) if head.is_large => self.delete_large(key).await?,
                Some(_) => plain.push(self.swift.path(Target::Object(key))),
            }
        }
        self.delete_paths(&plain).await
    }

    async fn head_of<'a>(&self, key: &'a str) -> Result<(&'a str, Option<Head>)> {
        Ok((key, self.head(key).await?))
    }

    /// Removes plain objects by their paths below the account.
    async fn delete_paths(&self, paths: &[String]) -> Result<()> {
        if self.bulk_delete_max == 0 {
            let deletes = paths.iter().map(|path| self.delete_plain(Target::Path(path)).boxed()).collect::<Vec<_>>();
            return stream::iter(deletes).buffer_unordered(SIDE_BY_SIDE).try_collect().await;
        }
        for paths in paths.chunks(self.bulk_delete_max) {
            let call = Call::new(Method::POST, Target::Account)
                .query("bulk-delete", "")
                .header("content-type", "text/plain")
                .header("accept", "application/json")
                .body(Payload::from(paths.join("\n")));
            let answer = self.swift.send(call).await?;
            if answer.status != StatusCode::OK {
                return Err(self.swift.failure(answer, Target::Account).await);
            }
            check_bulk(&answer.text(LIST_BYTES_MAX).await?)?;
        }
        Ok(())
    }

    /// Removes the segments below `large`.
    pub(super) async fn delete_segments(&self, large: &str) -> Result<()> {
        let prefix = format!("{large}/");
        loop {
            let found = entries(&self.list_json(Target::Segments, &prefix, None, PAGE).await?)?;
            let paths: Vec<_> = found.iter().map(|entry| self.swift.path(Target::Segment(&entry.name))).collect();
            self.delete_paths(&paths).await?;
            if found.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Removes segments below `prefix` that no manifest names and of which the youngest is older than `older_than`.
    pub(super) async fn sweep_segments(&self, prefix: &str, older_than: Duration) -> Result<u64> {
        let before = OffsetDateTime::now_utc() - older_than;
        let mut swept = 0;
        // Segments of one undertaking follow each other in the list; only the last may go on in the next page.
        let mut tries: BTreeMap<String, OffsetDateTime> = BTreeMap::new();
        let mut after: Option<String> = None;
        loop {
            let found = entries(&self.list_json(Target::Segments, prefix, after.as_deref(), PAGE).await?)?;
            for entry in &found {
                let Some((large, _)) = entry.name.rsplit_once('/') else { continue };
                // One whose age is not known is young.
                let changed = entry.last_modified.as_deref().and_then(moment).unwrap_or_else(OffsetDateTime::now_utc);
                let youngest = tries.entry(large.to_owned()).or_insert(changed);
                *youngest = changed.max(*youngest);
            }
            after = found.last().map(|entry| entry.name.clone());
            let last = after.as_deref().and_then(|name| name.rsplit_once('/')).map(|(large, _)| large.to_owned());
            let whole = found.len() < PAGE;
            let ready: Vec<_> = tries.keys().filter(|large| whole || Some(*large) != last.as_ref()).cloned().collect();
            for large in ready {
                let old = tries.remove(&large).is_some_and(|youngest| youngest <= before);
                if old && self.is_orphan(&large).await? {
                    self.delete_segments(&large).await?;
                    swept += 1;
                }
            }
            if whole {
                return Ok(swept);
            }
        }
    }

    async fn is_orphan(&self, large: &str) -> Result<bool> {
        let Some((key, mark)) = large.rsplit_once('/') else { return Ok(false) };
        Ok(self.head(key).await?.is_none_or(|head| head.stat.mark.as_deref() != Some(mark)))
    }
}

/// A time of a list, which has no zone and is UTC.
fn moment(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339).ok()
}

/// Reads the answer to a bulk request, which is 200 whatever happened; its body says how it went.
fn check_bulk(json: &[u8]) -> Result<()> {
    let answer: Value = serde_json::from_slice(json)
        .map_err(|error| Error::damaged("the store does not say what it has removed").with_source(error))?;
    let status = answer["Response Status"].as_str().unwrap_or_default();
    let errors = answer["Errors"].as_array().is_some_and(|errors| !errors.is_empty());
    // 400 with no errors: Swift found nothing to remove.
    if !errors && (status.starts_with("200") || status.starts_with("400") || status.starts_with("404")) {
        return Ok(());
    }
    let told: String = answer.to_string().chars().take(500).collect();
    Err(Error::unavailable("the store did not remove some objects").with_source(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_answer_is_a_success_only_if_nothing_failed() {
        assert!(check_bulk(br#"{"Response Status": "200 OK", "Number Deleted": 3, "Errors": []}"#).is_ok());
        let failed = br#"{"Response Status": "400 Bad Request", "Errors": [["/c/o", "403 Forbidden"]]}"#;
        assert!(check_bulk(failed).is_err());
        assert!(check_bulk(br#"{"Response Status": "502 Bad Gateway", "Errors": []}"#).is_err());
        assert!(check_bulk(b"").is_err());
    }

    #[test]
    fn times_of_lists_are_understood() {
        assert!(moment("2026-01-02T03:04:05.678900").is_some());
        assert!(moment("yesterday").is_none());
    }
}
