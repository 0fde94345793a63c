//! PROPFIND (RFC 4918 section 9.1).
//!
//! The answer is written in pieces of [`ANSWER_PIECE_BYTES`](crate::limits::ANSWER_PIECE_BYTES) by [`Listing`]. The first is
//! made before the answer begins: what fails in it is a status, and an answer that ends with it is sent whole, with its
//! length. Later pieces are made as the client takes them.

mod listing;

use crate::DavBody;
use crate::call::{self, Call, RequestBody, read_xml, set};
use crate::fault::{Answer, Code, Fault};
use crate::guard;
use crate::limits::CHECKSUM_PROPERTY_BYTES_MAX;
use crate::multistatus::PROLOGUE;
use crate::parse::{self, Depth, Target};
use crate::props::{Plan, Quota, Renderer};
use crate::smart;
use futures_util::stream;
use holdfast_base::Result;
use holdfast_drive::{DigestAlgorithm, Drive, Location, Lock, Node, NodeKind, SavedView, SpaceView, Walk};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use listing::{Level, Listing, Place};
use std::fmt::Write;
use std::sync::Arc;

/// PROPFIND.
pub(crate) async fn propfind(call: &Call, target: Target, body: RequestBody) -> Answer {
    let (mut listing, depth) = begin(call, body).await?;
    match &target {
        Target::Spaces => begin_with_spaces(call, &mut listing, depth).await?,
        Target::At { at, .. } => {
            guard::if_header_holds(call, at).await?;
            begin_at(call, at, &mut listing, depth).await?;
        }
    }
    answer(listing).await
}

/// PROPFIND of a saved search, or of their list.
pub(crate) async fn propfind_searches(call: &Call, which: Option<&SavedView>, body: RequestBody) -> Answer {
    let (mut listing, depth) = begin(call, body).await?;
    if depth == Depth::Infinity {
        let message = "saved searches are asked for with Depth: 0 or 1";
        return Err(Fault::forbidden(message).with(Code::PropfindFiniteDepth));
    }
    let state = call.drive.state_of_all(&call.who).await?;
    let all = if which.is_none() { call.drive.saved_searches(&call.who).await? } else { Vec::new() };
    match which {
        None => push_saved_top(call, &mut listing, &all, &state),
        Some(saved) => push_saved(call, &mut listing, saved, &state),
    }
    if depth == Depth::One {
        for saved in &all {
            push_saved(call, &mut listing, saved, &state);
        }
        if let Some(saved) = which {
            listing.enter_search(call.href(&smart::place(saved), true), smart::hits(call, saved).await?);
        }
    }
    answer(listing).await
}

fn push_saved_top(call: &Call, listing: &mut Listing, all: &[SavedView], state: &str) {
    let facts = smart::facts_of_all(call, all, state);
    listing.push_saved(&call.href(&smart::top(), true), smart::SAVED_SEARCHES, &facts);
}

fn push_saved(call: &Call, listing: &mut Listing, saved: &SavedView, state: &str) {
    let facts = smart::facts(call, saved, state);
    listing.push_saved(&call.href(&smart::place(saved), true), saved.name.as_str(), &facts);
}

/// What is asked, and an answer begun.
async fn begin(call: &Call, body: RequestBody) -> Result<(Listing, Depth), Fault> {
    let find = parse::prop_find(&read_xml(body).await?)?;
    let depth = call.depth(Depth::Infinity)?;
    let renderer = Renderer::new(Plan::new(find, wants_minimal(call)?), call.options.clock.now_ms());
    let mut listing = Listing::new(call.clone(), renderer, depth);
    listing.out.push_str(PROLOGUE);
    Ok((listing, depth))
}

async fn answer(mut listing: Listing) -> Answer {
    let minimal = listing.renderer.plan.minimal;
    let first = listing.next_piece().await?.unwrap_or_default();
    let mut response = if listing.is_finished() {
        call::xml(StatusCode::MULTI_STATUS, first)
    } else {
        let rest = stream::try_unfold((Some(first), listing), |(first, mut listing)| async move {
            let piece = if first.is_some() { first } else { listing.next_piece().await? };
            Ok(piece.map(|piece| (piece, (None, listing))))
        });
        streamed(DavBody::stream(rest, None))
    };
    if minimal {
        set(&mut response, HeaderName::from_static("preference-applied"), "return=minimal");
    }
    Ok(response)
}

fn streamed(body: DavBody) -> Response<DavBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::MULTI_STATUS;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    response
}

/// `Prefer: return=minimal` (RFC 8144) or Microsoft's `Brief: t`.
fn wants_minimal(call: &Call) -> Result<bool, Fault> {
    let prefer = call.header("prefer")?.unwrap_or_default().to_ascii_lowercase();
    let brief = call.header("brief")?.unwrap_or_default();
    Ok(prefer.contains("return=minimal") || brief.trim().eq_ignore_ascii_case("t"))
}

/// The target's own response, and its members if the depth has them.
async fn begin_at(call: &Call, at: &Location, listing: &mut Listing, depth: Depth) -> Result<(), Fault> {
    let walk = call.drive.walk(&call.who, at).await?;
    let node = walk.node().ok_or_else(Fault::not_found)?;
    let folder = node.kind == NodeKind::Folder;
    if folder && depth == Depth::Infinity {
        refuse_endless(call, &[node]).await?;
    }
    let plan = &listing.renderer.plan;
    let quota = if plan.wants_quota() { Some(quota_of(&call.drive.space(&call.who, &at.space).await?)) } else { None };
    let place = Arc::new(Place { space: at.space.clone(), role: walk.role, quota });
    let covering = if plan.wants_locks() { covering(call, at, &walk).await? } else { Vec::new() };
    let dead = if plan.wants_dead() && node.has_properties {
        call.drive.properties(&call.who, std::slice::from_ref(node)).await?.pop().unwrap_or_default()
    } else {
        Vec::new()
    };
    let checksums = checksums(call, &walk, depth, plan).await?;
    let href = call.href(at, folder);
    listing.push_one(&place, &href, Some(node), &dead, &covering, checksums.as_deref());
    if folder && depth != Depth::Zero {
        let inherited = covering.into_iter().filter(|(lock, _)| lock.deep).collect();
        listing.enter(Level::new(node.clone(), href, place, inherited));
    }
    Ok(())
}

/// The list of spaces, and each space if the depth has it.
async fn begin_with_spaces(call: &Call, listing: &mut Listing, depth: Depth) -> Result<(), Fault> {
    let top = Arc::new(Place::top());
    let href = format!("{}/", call.options.prefix);
    listing.push_one(&top, &href, None, &[], &[], None);
    if depth == Depth::Zero {
        return Ok(());
    }
    let spaces = call.drive.spaces(&call.who).await?;
    if depth == Depth::Infinity {
        refuse_endless(call, &spaces.iter().map(|space| &space.root).collect::<Vec<_>>()).await?;
    }
    for space in spaces {
        let at = Location { space: space.name.clone(), path: holdfast_base::DrivePath::root() };
        let href = call.href(&at, true);
        let place = Arc::new(Place { space: space.name.clone(), role: space.role, quota: Some(quota_of(&space)) });
        let root = std::slice::from_ref(&space.root);
        let dead = if listing.renderer.plan.wants_dead() && space.root.has_properties {
            call.drive.properties(&call.who, root).await?.pop().unwrap_or_default()
        } else {
            Vec::new()
        };
        let locks = if listing.renderer.plan.wants_locks() {
            call.drive.locks(&call.who, root).await?.into_iter().map(|lock| (lock, href.clone())).collect()
        } else {
            Vec::new()
        };
        listing.push_one(&place, &href, Some(&space.root), &dead, &locks, None);
        if depth == Depth::Infinity {
            let inherited = locks.into_iter().filter(|(lock, _)| lock.deep).collect();
            listing.enter(Level::new(space.root, href, place, inherited));
        }
    }
    if depth == Depth::One {
        let all = call.drive.saved_searches(&call.who).await?;
        if !all.is_empty() {
            push_saved_top(call, listing, &all, &call.drive.state_of_all(&call.who).await?);
        }
    }
    Ok(())
}

const fn quota_of(space: &SpaceView) -> Quota {
    Quota { available: space.available_bytes, used: space.usage.used_bytes }
}

/// Refuses depth infinity over more nodes than the option allows.
async fn refuse_endless(call: &Call, roots: &[&Node]) -> Result<(), Fault> {
    let most = call.options.infinity_nodes_max;
    let mut nodes = 0;
    for root in roots {
        nodes += call.drive.count_below(&call.who, root, most + 1 - nodes).await?;
        if nodes > most {
            let message = format!("there are more than {most} nodes below; ask folder by folder, with Depth: 1");
            return Err(Fault::forbidden(message).with(Code::PropfindFiniteDepth));
        }
    }
    Ok(())
}

/// The locks that cover the end of a walk, with the href of each one's root.
async fn covering(call: &Call, at: &Location, walk: &Walk) -> Result<Vec<(Lock, String)>, Fault> {
    let end = walk.node();
    let locks = call.drive.locks(&call.who, &walk.chain).await?;
    let covers = |lock: &Lock| lock.deep || end.is_some_and(|end| end.id == lock.node);
    let root_href = |lock: &Lock| {
        let folder = end.is_none_or(|end| end.id != lock.node || end.kind == NodeKind::Folder);
        call.href(&Location { space: at.space.clone(), path: lock.path.clone() }, folder)
    };
    Ok(locks
        .into_iter()
        .filter(covers)
        .map(|lock| {
            let href = root_href(&lock);
            (lock, href)
        })
        .collect())
}

/// `oc:checksums` of a file asked for alone: in a listing it would read every file of a folder.
async fn checksums(call: &Call, walk: &Walk, depth: Depth, plan: &Plan) -> Result<Option<String>, Fault> {
    let computable =
        walk.node().is_some_and(|node| node.kind == NodeKind::File && node.size <= CHECKSUM_PROPERTY_BYTES_MAX);
    if !plan.wants_checksums() || plan.names_only || depth != Depth::Zero || !computable {
        return Ok(None);
    }
    let drive: &dyn Drive = call.drive.as_ref();
    let mut text = String::new();
    for (name, algorithm) in [("SHA1", DigestAlgorithm::Sha1), ("MD5", DigestAlgorithm::Md5)] {
        let digest = drive.digest(&call.who, walk, algorithm).await?;
        let _ = write!(text, "{}{name}:", if text.is_empty() { "" } else { " " });
        for byte in digest {
            let _ = write!(text, "{byte:02x}");
        }
    }
    Ok(Some(text))
}
