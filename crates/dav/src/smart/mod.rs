//! Saved searches as folders.
//!
//! Beside the spaces is a collection [`SAVED_SEARCHES`], in it one for each saved search, and in that what the search finds now. A space's name has no
//! blank, and what is shared with an account is called `folder (by whom)`, so neither is ever in its way. A hit is the file or folder itself at another
//! address ([`Alias`]): what is read, written, locked and described is that, and folders can be entered.
//!
//! **What cannot be lost.** Nothing is moved or removed through a smart folder: a client that clears a folder, or makes it equal to another one, would
//! clear the drive of whatever is found. DELETE of the smart folder itself removes the search, and MOVE beside it renames it.
//!
//! **What is put into it.** A new file goes to the search's folder, with the search's tags, in one transaction. It never overwrites
//! what the smart folder does not show: a taken name is refused. Only what was plainly put there before is taken for it even if the search does not
//! find it: a file without bytes, as clients make before they write, or one that has all of the search's tags. COPY and MOVE of a file into a smart
//! folder do the same ([`destination`]); what they replace there goes to the trash, as it does anywhere.
//!
//! **Limits.** [`SMART_HITS_MAX`] hits are shown, the best. What is of one name is told apart by its row ([`names`]).

mod answers;
mod names;

pub(crate) use answers::Answers;
pub(crate) use names::Shown;

use crate::call::{Alias, Call, RequestBody, drain, empty};
use crate::fault::{Answer, Fault};
use crate::methods::{self, PutInto};
use crate::parse::{Depth, Resolved, Target};
use crate::props::Saved;
use answers::Question;
use holdfast_base::{DrivePath, ErrorKind, NodeName, Result};
use holdfast_drive::{
    Expect, FoundNode, Location, Node, NodeKind, SMART_HITS_MAX, SavedView, SavedWish, SearchQuery, Tag, WhichSearch,
};
use http::StatusCode;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What the collection of all saved searches is called.
pub(crate) const SAVED_SEARCHES: &str = "Saved searches";

/// Whether a place is below [`SAVED_SEARCHES`], or that itself.
pub(crate) fn is_saved(at: &Location) -> bool {
    at.space == SAVED_SEARCHES
}

/// The collection of all saved searches.
pub(crate) fn top() -> Location {
    Location { space: SAVED_SEARCHES.into(), path: DrivePath::root() }
}

/// The collection of one.
pub(crate) fn place(saved: &SavedView) -> Location {
    below(std::slice::from_ref(&saved.name)).unwrap_or_else(|_| top())
}

fn below(names: &[NodeName]) -> Result<Location> {
    Ok(Location { space: SAVED_SEARCHES.into(), path: DrivePath::from_names(names.to_vec())? })
}

/// What a saved search finds, with the names it is shown by, in their order. Where it looks in a space that is gone, it finds nothing.
pub(crate) async fn hits(call: &Call, saved: &SavedView) -> Result<Arc<[Shown]>> {
    // Asked before the search: what changes between the two is found, and looked for once more.
    let state = call.drive.state_of_all(&call.who).await?;
    let question = Question { account: call.who.account, search: saved.id, changed_ms: saved.changed_ms, state };
    let look = async {
        let query = SearchQuery { limit: SMART_HITS_MAX, whole: true, ..saved.query.clone() };
        match call.drive.search(&call.who, saved.space.as_deref(), &query).await {
            Ok(answer) => Ok((names::told_apart(answer.found).into(), !answer.indexing)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((Arc::default(), true)),
            Err(error) => Err(error),
        }
    };
    call.answers.get(question, call.options.clock.now_ms(), look).await
}

/// What is told of a saved search. It has no time of its own: that of the answer makes clients that compare times look again.
pub(crate) fn facts(call: &Call, saved: &SavedView, state: &str) -> Saved {
    let mut hasher = DefaultHasher::new();
    (saved.id, saved.changed_ms, state).hash(&mut hasher);
    Saved {
        entity_tag: format!("\"s-{:x}-{:x}\"", saved.id, hasher.finish()),
        created_ms: saved.created_ms,
        modified_ms: call.options.clock.now_ms(),
    }
}

/// What is told of their list.
pub(crate) fn facts_of_all(call: &Call, all: &[SavedView], state: &str) -> Saved {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    for saved in all {
        (saved.id, saved.changed_ms).hash(&mut hasher);
    }
    let created_ms = all.iter().map(|saved| saved.created_ms).min().unwrap_or_default();
    let entity_tag = format!("\"s-{:x}\"", hasher.finish());
    Saved { entity_tag, created_ms, modified_ms: call.options.clock.now_ms() }
}

/// What an address leads to.
enum Step {
    Top,
    Search(SavedView),
    /// There is no such search.
    NoSearch,
    /// Something that exists, or is below a folder that does.
    Node {
        real: Location,
        alias: Alias,
        into: PutInto,
        /// Whether it is what the smart folder shows, rather than below that.
        own: bool,
        /// Tags that what takes its place has to have.
        tags: Vec<Tag>,
    },
    /// A new name in a smart folder, and where that is to lie.
    New {
        real: Location,
        alias: Alias,
        into: PutInto,
        /// Whether something is there that the smart folder does not show.
        taken: bool,
    },
    /// A new name in a smart folder whose own folder is gone.
    Nowhere,
    /// Below what is not there.
    Missing,
}

/// Answers a request to the saved searches or below.
pub(crate) async fn handle(call: &Call, at: &Location, slash: bool, body: RequestBody) -> Answer {
    let step = match locate(call, at).await {
        Ok(step) => step,
        Err(error) => return refused(call, body, error.into()).await,
    };
    let method = call.head.method.as_str();
    match step {
        Step::Top => match method {
            "GET" | "HEAD" => methods::saved_searches_page(call).await,
            "PROPFIND" => methods::propfind_searches(call, None, body).await,
            "MKCOL" => refused(call, body, exists()).await,
            _ => refused(call, body, Fault::forbidden("the list of saved searches cannot be changed as a whole")).await,
        },
        Step::Search(saved) => search(call, &saved, body).await,
        Step::Node { real, alias, into, own, .. } => {
            node(&call.through(alias), Target::At { at: real, slash }, into, own, body).await
        }
        Step::New { real, alias, into, taken } => {
            new(&call.through(alias), Target::At { at: real, slash }, into, taken, body).await
        }
        Step::NoSearch | Step::Nowhere | Step::Missing => refused(call, body, missing(method, &step)).await,
    }
}

async fn refused(call: &Call, body: RequestBody, fault: Fault) -> Answer {
    drain(call, body).await;
    Err(fault)
}

fn exists() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "there is a folder of this name already")
}

fn missing(method: &str, step: &Step) -> Fault {
    match (method, step) {
        ("MKCOL" | "PUT" | "LOCK", Step::NoSearch) => {
            Fault::forbidden("a smart folder is made by saving a search, in the pages or with holdfast search --save")
        }
        ("PUT" | "LOCK", Step::Nowhere) => {
            Fault::conflict("the folder for what is put into this smart folder is gone: choose another one for it")
        }
        ("MKCOL", Step::Nowhere) => no_folders(),
        ("MKCOL" | "PUT" | "LOCK", _) => Fault::conflict("the folder it is to be in does not exist"),
        _ => Fault::not_found(),
    }
}

fn no_folders() -> Fault {
    Fault::forbidden("files can be put into a smart folder, folders cannot: make one where it is to lie")
}

async fn locate(call: &Call, at: &Location) -> Result<Step> {
    let names = at.path.names();
    let Some((first, names)) = names.split_first() else { return Ok(Step::Top) };
    let which = WhichSearch::Name(first.as_str().to_owned());
    let saved = match call.drive.saved_search(&call.who, &which).await {
        Ok(saved) => saved,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Step::NoSearch),
        Err(error) => return Err(error),
    };
    let Some((name, rest)) = names.split_first() else { return Ok(Step::Search(saved)) };
    let shown = below(&[first.clone(), name.clone()])?;
    if let Some(FoundNode { at: real, .. }) = names::find(&hits(call, &saved).await?, name) {
        let real = real.clone();
        let path = DrivePath::from_names([real.path.names(), rest].concat())?;
        let inside = Location { space: real.space.clone(), path };
        let alias = Alias { real, shown };
        let own = rest.is_empty();
        let tags = if own { saved.query.tags } else { Vec::new() };
        return Ok(Step::Node { real: inside, alias, into: PutInto::default(), own, tags });
    }
    if rest.is_empty() { locate_new(call, &saved, name, shown).await } else { Ok(Step::Missing) }
}

/// A name that the smart folder does not show.
async fn locate_new(call: &Call, saved: &SavedView, name: &NodeName, shown: Location) -> Result<Step> {
    let Some(folder) = &saved.folder else { return Ok(Step::Nowhere) };
    let real = Location { space: folder.space.clone(), path: folder.path.join(name.clone())? };
    let alias = Alias { real: real.clone(), shown };
    let tags = saved.query.tags.clone();
    let walk = match call.drive.walk(&call.who, &real).await {
        Ok(walk) => walk,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Step::Nowhere),
        Err(error) => return Err(error),
    };
    match walk.node() {
        None => Ok(Step::New { real, alias, into: PutInto { tags, expect: Expect::Absent, own: true }, taken: false }),
        Some(node) if was_put_there(call, saved, node).await? => {
            let into = PutInto { tags: tags.clone(), expect: Expect::Seq(node.seq), own: true };
            Ok(Step::Node { real, alias, into, own: true, tags })
        }
        Some(_) => Ok(Step::New { real, alias, into: PutInto::default(), taken: true }),
    }
}

/// Where a COPY or MOVE to such an address goes, which is told to the call, and what the copy gets there.
pub(crate) async fn destination(call: &Call, at: &Location) -> Result<(Call, Location, PutInto), Fault> {
    let (real, alias, into, own) = match locate(call, at).await? {
        Step::Node { real, alias, into, own, tags } => (real, alias, PutInto { tags, ..into }, own),
        Step::New { real, taken: true, .. } => return Err(name_taken(&real)),
        Step::New { real, alias, into, taken: false } => (real, alias, into, true),
        Step::Top | Step::Search(_) => {
            return Err(Fault::forbidden("nothing takes the place of a smart folder: name a file inside it"));
        }
        step => return Err(missing("PUT", &step)),
    };
    let replaced = call.drive.walk(&call.who, &real).await?;
    if own && replaced.node().is_some_and(|node| node.kind == NodeKind::Folder) {
        return Err(Fault::conflict("a folder that a search found is not replaced through it"));
    }
    Ok((call.through(alias), real, PutInto { own, ..into }))
}

fn name_taken(at: &Location) -> Fault {
    Fault::conflict(format!("there is a {at} already, which this search does not find: choose another name"))
}

/// What is put into a smart folder is a file.
pub(crate) fn refuse_folder(node: &Node) -> Result<(), Fault> {
    if node.kind == NodeKind::Folder { Err(no_folders()) } else { Ok(()) }
}

/// See the module.
async fn was_put_there(call: &Call, saved: &SavedView, node: &Node) -> Result<bool> {
    if node.kind != NodeKind::File {
        return Ok(false);
    }
    if node.size == 0 {
        return Ok(true);
    }
    let has = call.drive.tags(&call.who, std::slice::from_ref(node)).await?.pop().unwrap_or_default();
    let has: Vec<_> = has.iter().filter_map(|text| holdfast_drive::Tag::new(text).ok()).collect();
    let wanted = &saved.query.tags;
    Ok(!wanted.is_empty() && wanted.iter().all(|tag| has.iter().any(|own| own.folded() == tag.folded())))
}

/// A request to a smart folder itself.
async fn search(call: &Call, saved: &SavedView, body: RequestBody) -> Answer {
    match call.head.method.as_str() {
        "GET" | "HEAD" => methods::saved_search_page(call, saved).await,
        "PROPFIND" => methods::propfind_searches(call, Some(saved), body).await,
        "DELETE" => {
            if call.depth(Depth::Infinity)? != Depth::Infinity {
                return Err(Fault::bad_request("DELETE takes a smart folder as a whole: its Depth is infinity"));
            }
            call.drive.remove_search(&call.who, saved.id).await?;
            Ok(empty(StatusCode::NO_CONTENT))
        }
        "MOVE" => rename(call, saved).await,
        "MKCOL" => refused(call, body, exists()).await,
        "PUT" => {
            let message = "a folder has no content to replace; PUT a file inside it";
            refused(call, body, Fault::new(StatusCode::METHOD_NOT_ALLOWED, message)).await
        }
        _ => {
            let message = "a smart folder is neither copied, locked nor described; it can be renamed and removed";
            refused(call, body, Fault::forbidden(message)).await
        }
    }
}

async fn rename(call: &Call, saved: &SavedView) -> Answer {
    let uri = call.header("destination")?.ok_or_else(|| Fault::bad_request("MOVE needs a Destination header"))?;
    let name = match call.resolve(&uri)? {
        Resolved::Here(Target::At { at, .. }) if is_saved(&at) && at.path.names().len() == 1 => at.path.name().cloned(),
        _ => None,
    };
    let Some(name) = name.filter(|name| *name != saved.name) else {
        return Err(Fault::forbidden(
            "a smart folder is not moved elsewhere; it can have another name beside the others",
        ));
    };
    let wish = SavedWish { name: Some(name), ..SavedWish::default() };
    match call.drive.change_search(&call.who, saved.id, wish).await {
        Ok(_) => Ok(empty(StatusCode::CREATED)),
        // Whatever Overwrite says: nobody means to lose a search by renaming another.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Fault::precondition_failed(error.message())),
        Err(error) => Err(error.into()),
    }
}

/// A request to what is shown, or below it.
async fn node(call: &Call, target: Target, into: PutInto, own: bool, body: RequestBody) -> Answer {
    match call.head.method.as_str() {
        "GET" | "HEAD" => methods::get(call, &target).await,
        "PROPFIND" => methods::propfind(call, target, body).await,
        "PROPPATCH" => methods::proppatch(call, &target, body).await,
        "LOCK" => methods::lock(call, &target, body).await,
        "UNLOCK" => methods::unlock(call, &target).await,
        "COPY" => methods::transfer(call, target, true).await,
        "PUT" => methods::put(call, target, body, into).await,
        "MKCOL" if own => refused(call, body, exists()).await,
        "MKCOL" => methods::mkcol(call, &target, body).await,
        "DELETE" | "MOVE" => {
            let Target::At { at, .. } = &target else { return Err(Fault::not_found()) };
            let message = format!("nothing is moved or removed through a smart folder: this lies at {at}");
            refused(call, body, Fault::forbidden(message)).await
        }
        _ => refused(call, body, Fault::new(StatusCode::METHOD_NOT_ALLOWED, "a smart folder does not do this")).await,
    }
}

/// A request to a name that the smart folder does not show.
async fn new(call: &Call, target: Target, into: PutInto, taken: bool, body: RequestBody) -> Answer {
    match call.head.method.as_str() {
        "PUT" | "LOCK" if taken => {
            let Target::At { at, .. } = &target else { return Err(Fault::not_found()) };
            refused(call, body, name_taken(at)).await
        }
        "PUT" => methods::put(call, target, body, into).await,
        "LOCK" => methods::lock(call, &target, body).await,
        "MKCOL" => refused(call, body, no_folders()).await,
        _ => refused(call, body, Fault::not_found()).await,
    }
}
