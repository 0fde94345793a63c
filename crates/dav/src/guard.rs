//! Preconditions of a change: the conditional headers of RFC 9110 section 13 and the `If` header of RFC 4918 section 10.4.
//!
//! They are evaluated here, against a walk, because only here is known what they say; a request that fails is answered
//! 412 before anything is done. What held is then handed to the drive as an expectation of the node that changes, so
//! that it is tested once more inside the transaction: when a condition spoke of an entity tag, the node must still have
//! the very version that was looked at. A request without conditions costs no walk.
//!
//! For COPY and MOVE the conditional headers speak of the source, and lists of `If` of whatever they are tagged with: there are
//! two expectations then, and the transaction tests both.

use crate::call::Call;
use crate::fault::Fault;
use crate::parse::{self, Condition, IfHeader, Resolved, TagList, Target};
use crate::smart;
use holdfast_base::ErrorKind;
use holdfast_drive::{Conditions, Expect, Location, Lock, Node, NodeKind, Walk};
use http::header::{IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};

/// What was seen at a location while conditions were evaluated.
struct Seen {
    at: Location,
    /// None if the session may not see the space: a resource without any state.
    walk: Option<Walk>,
    locks: Option<Vec<Lock>>,
}

impl Seen {
    fn node(&self) -> Option<&Node> {
        self.walk.as_ref().and_then(Walk::node)
    }

    fn exact(&self) -> Expect {
        self.node().map_or(Expect::Absent, |node| Expect::Seq(node.seq))
    }
}

struct Sight<'a> {
    call: &'a Call,
    seen: Vec<Seen>,
}

impl Sight<'_> {
    async fn at(&mut self, at: &Location) -> Result<usize, Fault> {
        if let Some(index) = self.seen.iter().position(|seen| seen.at == *at) {
            return Ok(index);
        }
        let walk = match self.call.drive.walk(&self.call.who, at).await {
            Ok(walk) => Some(walk),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        self.seen.push(Seen { at: at.clone(), walk, locks: None });
        Ok(self.seen.len() - 1)
    }

    /// Whether the resource is in the scope of a lock with this token.
    async fn has_token(&mut self, index: usize, token: &str) -> Result<bool, Fault> {
        let Some(seen) = self.seen.get_mut(index) else { return Ok(false) };
        let Some(walk) = &seen.walk else { return Ok(false) };
        if seen.locks.is_none() {
            seen.locks = Some(self.call.drive.locks(&self.call.who, &walk.chain).await?);
        }
        let end = walk.node().map(|node| node.id);
        let locks = seen.locks.as_deref().unwrap_or_default();
        Ok(locks.iter().any(|lock| lock.token == token && (lock.deep || Some(lock.node) == end)))
    }

    /// Evaluates one condition; `resource` is none for a resource that is not in this drive.
    async fn holds(&mut self, resource: Option<&Location>, condition: &Condition) -> Result<bool, Fault> {
        let Some(at) = resource else {
            return Ok(matches!(condition, Condition::Token { not: true, .. } | Condition::Tag { not: true, .. }));
        };
        let index = self.at(at).await?;
        match condition {
            Condition::Token { not, token } => Ok(self.has_token(index, token).await? != *not),
            Condition::Tag { not, tag } => {
                let node = self.seen.get(index).and_then(Seen::node);
                Ok(node.is_some_and(|node| tag.matches_strongly(&node.entity_tag())) != *not)
            }
        }
    }

    async fn any_list_holds(&mut self, own: &Location, header: &IfHeader) -> Result<bool, Fault> {
        for group in &header.0 {
            let resource = resource(self.call, own, group.resource.as_deref());
            for list in &group.lists {
                let mut all = true;
                for condition in list {
                    all = all && self.holds(resource.as_ref(), condition).await?;
                }
                if all {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The location a list speaks of; none if it is not in this drive.
fn resource(call: &Call, own: &Location, tag: Option<&str>) -> Option<Location> {
    let Some(tag) = tag else { return Some(own.clone()) };
    match call.resolve(tag) {
        // What is shown at another address is told by that; of all such only what this request speaks of is known here.
        Ok(Resolved::Here(Target::At { at, .. })) if smart::is_saved(&at) => call.real(&at),
        Ok(Resolved::Here(Target::At { at, .. })) => Some(at),
        _ => None,
    }
}

/// Evaluates every precondition of a request to `at` and makes the drive's conditions for the node there.
pub(crate) async fn conditions(call: &Call, at: &Location) -> Result<Conditions, Fault> {
    let ([expect], tokens) = evaluate(call, at, [at]).await?;
    Ok(Conditions { expect, tokens })
}

/// The same for COPY and MOVE: the conditions for the target, and what is expected of the source.
pub(crate) async fn transfer_conditions(
    call: &Call,
    from: &Location,
    to: &Location,
) -> Result<(Conditions, Expect), Fault> {
    let ([source, expect], tokens) = evaluate(call, from, [from, to]).await?;
    Ok((Conditions { expect, tokens }, source))
}

/// Evaluates every precondition of a request to `own`; answers what it says of each of `places`, and the lock tokens submitted.
async fn evaluate<const N: usize>(
    call: &Call,
    own: &Location,
    places: [&Location; N],
) -> Result<([Expect; N], Vec<String>), Fault> {
    let mut expects = [Expect::Any; N];
    let header = call.header("if")?.map(|text| parse::if_header(&text)).transpose()?;
    let conditional = [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| call.has(name));
    let mut sight = Sight { call, seen: Vec::new() };
    if let Some(header) = &header {
        if !sight.any_list_holds(own, header).await? {
            return Err(Fault::precondition_failed(
                "no list of the If header holds: the resource changed, or the lock is gone or another one",
            ));
        }
        for (place, expect) in places.iter().zip(&mut expects) {
            if speaks_of_version(call, own, header, place) {
                let index = sight.at(place).await?;
                *expect = sight.seen.get(index).map_or(Expect::Any, Seen::exact);
            }
        }
    }
    if conditional {
        let index = sight.at(own).await?;
        if let Some(seen) = sight.seen.get(index) {
            let needed = http_conditions(call, seen)?;
            for (_, expect) in places.iter().zip(&mut expects).filter(|(place, _)| **place == own) {
                if *expect == Expect::Any {
                    *expect = needed;
                }
            }
        }
    }
    Ok((expects, header.map(|header| header.tokens()).unwrap_or_default()))
}

/// Whether an `If` header has a list with an entity tag about this place.
fn speaks_of_version(call: &Call, own: &Location, header: &IfHeader, place: &Location) -> bool {
    header.0.iter().any(|group| {
        let tags = group.lists.iter().flatten().any(|condition| matches!(condition, Condition::Tag { .. }));
        tags && resource(call, own, group.resource.as_deref()).as_ref() == Some(place)
    })
}

/// `If-Match`, `If-Unmodified-Since` and `If-None-Match` of a change, in the order of RFC 9110 section 13.2.2.
fn http_conditions(call: &Call, seen: &Seen) -> Result<Expect, Fault> {
    let node = seen.node();
    let tag = node.map(Node::entity_tag);
    let mut expect = Expect::Any;
    if let Some(text) = call.header(IF_MATCH)? {
        let holds = match parse::tag_list(&text)? {
            TagList::Any => {
                expect = Expect::Present;
                node.is_some()
            }
            TagList::Tags(tags) => {
                expect = seen.exact();
                tag.as_deref().is_some_and(|ours| tags.iter().any(|tag| tag.matches_strongly(ours)))
            }
        };
        if !holds {
            return Err(Fault::precondition_failed("If-Match does not hold: the resource changed or is gone"));
        }
    } else if let Some(since) =
        call.header(IF_UNMODIFIED_SINCE)?.as_deref().and_then(holdfast_http::dates::parse_http_s)
    {
        if node.is_some_and(|node| node.modified_ms.div_euclid(1_000) > since) {
            return Err(Fault::precondition_failed("If-Unmodified-Since does not hold: the resource changed"));
        }
        expect = seen.exact();
    }
    if let Some(text) = call.header(IF_NONE_MATCH)? {
        let matched = match parse::tag_list(&text)? {
            TagList::Any => {
                expect = Expect::Absent;
                node.is_some()
            }
            TagList::Tags(tags) => {
                expect = seen.exact();
                tag.as_deref().is_some_and(|ours| tags.iter().any(|tag| tag.matches_weakly(ours)))
            }
        };
        if matched {
            return Err(Fault::precondition_failed("If-None-Match does not hold: the resource exists"));
        }
    }
    Ok(expect)
}

/// Evaluates an `If` header of a request that changes nothing.
pub(crate) async fn if_header_holds(call: &Call, own: &Location) -> Result<(), Fault> {
    let Some(text) = call.header("if")? else { return Ok(()) };
    let header = parse::if_header(&text)?;
    if (Sight { call, seen: Vec::new() }).any_list_holds(own, &header).await? {
        Ok(())
    } else {
        Err(Fault::precondition_failed("no list of the If header holds"))
    }
}

/// The hrefs of the roots of locks that may have stopped a change at one of `places`; the last place's own if none is found
/// (the lock is below it, or was released meanwhile).
pub(crate) async fn locked_hrefs(call: &Call, places: &[&Location]) -> Vec<String> {
    let mut hrefs = Vec::new();
    for at in places {
        let Ok(walk) = call.drive.walk(&call.who, at).await else { continue };
        let Ok(locks) = call.drive.locks(&call.who, &walk.chain).await else { continue };
        // A lock on the folder protects the list of its members, so it counts even if it is not deep.
        let near = walk.chain.iter().skip(at.path.names().len().saturating_sub(1));
        let near: Vec<_> = near.map(|node| node.id).collect();
        for lock in locks.iter().filter(|lock| lock.deep || near.contains(&lock.node)) {
            let root = walk.chain.iter().find(|node| node.id == lock.node);
            let folder = root.is_some_and(|node| node.kind == NodeKind::Folder);
            hrefs.push(call.href(&Location { space: at.space.clone(), path: lock.path.clone() }, folder));
        }
    }
    hrefs.dedup();
    if let (true, Some(last)) = (hrefs.is_empty(), places.last()) {
        hrefs.push(call.href(last, false));
    }
    hrefs
}
