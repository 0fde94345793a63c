//! One `DAV:response` of a multistatus, written straight into the answer's text.
//!
//! A listing is as fast as this function: it formats into one string, allocates nothing per property, and collects what
//! is missing in a list that is reused from node to node.

use super::live::Live;
use super::locks::{SUPPORTED, push_active_lock};
use super::plan::{Item, Plan};
use crate::multistatus::{push_empty_element, push_href, push_status};
use crate::parse::PropName;
use crate::xml::DAV;
use crate::xml::escape::push_text;
use holdfast_drive::{Lock, Node, NodeKind, Property, Role};
use holdfast_http::dates;
use std::fmt::Write;

/// Space left and used, where the node lies (RFC 4331).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) available: Option<u64>,
    pub(crate) used: u64,
}

/// What is told of a saved search, or of their list.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    /// Another one after every change of what it may find.
    pub(crate) entity_tag: String,
    pub(crate) created_ms: i64,
    pub(crate) modified_ms: i64,
}

/// Everything known of one node.
pub(crate) struct Facts<'a> {
    pub(crate) href: &'a str,
    /// The name shown; a space's root has none of its own.
    pub(crate) name: &'a str,
    /// None for the list of spaces, and for saved searches, which are no nodes.
    pub(crate) node: Option<&'a Node>,
    /// What a saved search, or their list, has in place of a node.
    pub(crate) saved: Option<&'a Saved>,
    /// Whether it is shown where it cannot be moved or removed.
    pub(crate) pinned: bool,
    pub(crate) role: Role,
    pub(crate) dead: &'a [Property],
    /// Locks that cover the node, each with its root's href.
    pub(crate) locks: &'a [(Lock, String)],
    pub(crate) quota: Option<Quota>,
    /// `SHA1:… MD5:…`, if asked for and computed.
    pub(crate) checksums: Option<&'a str>,
}

impl Facts<'_> {
    fn file(&self) -> Option<&Node> {
        self.node.filter(|node| node.kind == NodeKind::File)
    }

    /// When it was made and changed.
    fn times_ms(&self) -> Option<(i64, i64)> {
        let of_node = self.node.map(|node| (node.created_ms, node.modified_ms));
        of_node.or_else(|| self.saved.map(|saved| (saved.created_ms, saved.modified_ms)))
    }
}

/// Writes responses by a plan.
pub(crate) struct Renderer {
    pub(crate) plan: Plan,
    pub(crate) now_ms: i64,
    missing: Vec<usize>,
}

impl Renderer {
    pub(crate) const fn new(plan: Plan, now_ms: i64) -> Self {
        Self { plan, now_ms, missing: Vec::new() }
    }

    /// Appends the response of one node.
    pub(crate) fn push(&mut self, out: &mut String, facts: &Facts<'_>) {
        out.push_str("<D:response>");
        push_href(out, facts.href);
        let start = out.len();
        out.push_str("<D:propstat><D:prop>");
        let empty = out.len();
        self.missing.clear();
        for (index, item) in self.plan.items.iter().enumerate() {
            if !self.push_item(out, item, facts) && index >= self.plan.named_from {
                self.missing.push(index);
            }
        }
        if self.plan.all_dead {
            for property in facts.dead.iter().filter(|property| !is_display_name(property)) {
                self.push_dead(out, property);
            }
        }
        let list_missing = !self.missing.is_empty() && !self.plan.minimal;
        if out.len() == empty && list_missing {
            out.truncate(start);
        } else {
            close_propstat(out, "200 OK");
        }
        if list_missing {
            out.push_str("<D:propstat><D:prop>");
            for index in &self.missing {
                match self.plan.items.get(*index) {
                    Some(Item::Live(live)) => push_empty_live(out, *live),
                    Some(Item::Dead { empty, .. }) => out.push_str(empty),
                    None => {}
                }
            }
            close_propstat(out, "404 Not Found");
        }
        out.push_str("</D:response>\n");
    }

    /// Appends one property; false if the node does not have it.
    fn push_item(&self, out: &mut String, item: &Item, facts: &Facts<'_>) -> bool {
        match item {
            Item::Dead { name, .. } => {
                let found = facts.dead.iter().find(|dead| dead.name == name.name && dead.namespace == name.namespace);
                if let Some(property) = found {
                    self.push_dead(out, property);
                }
                found.is_some()
            }
            Item::Live(Live::DisplayName) if facts.dead.iter().any(is_display_name) => {
                facts.dead.iter().filter(|dead| is_display_name(dead)).for_each(|dead| self.push_dead(out, dead));
                true
            }
            Item::Live(live) => {
                let start = out.len();
                out.push('<');
                out.push_str(live.qualified());
                out.push('>');
                let found = self.push_value(out, *live, facts);
                if !found || self.plan.names_only {
                    out.truncate(start);
                }
                if found && self.plan.names_only {
                    push_empty_live(out, *live);
                } else if found {
                    out.push_str("</");
                    out.push_str(live.qualified());
                    out.push('>');
                }
                found
            }
        }
    }

    fn push_dead(&self, out: &mut String, property: &Property) {
        if self.plan.names_only {
            push_empty_element(out, &PropName { namespace: property.namespace.clone(), name: property.name.clone() });
        } else {
            out.push_str(&property.xml);
        }
    }

    /// Appends a live property's value; false if the node has none. What was appended then is taken back by the caller.
    fn push_value(&self, out: &mut String, live: Live, facts: &Facts<'_>) -> bool {
        match (live, facts.node, facts.file()) {
            (Live::DisplayName, ..) => push_text(out, facts.name),
            (Live::ResourceType, _, None) => out.push_str("<D:collection/>"),
            (Live::ResourceType, ..) => {}
            (Live::CreationDate | Live::LastModified, ..) => match facts.times_ms() {
                Some((ms, _)) if live == Live::CreationDate => dates::push_rfc3339(out, ms),
                Some((_, ms)) => dates::push_http(out, ms),
                None => return false,
            },
            (Live::ContentLength, _, Some(file)) => push_display(out, file.size),
            (Live::ContentType, _, Some(file)) => push_content_type(out, &file.name),
            (Live::ETag, _, Some(file)) => file.push_entity_tag(out),
            (Live::ETag, None, _) => match facts.saved {
                Some(saved) => out.push_str(&saved.entity_tag),
                None => return false,
            },
            (Live::SupportedLock, Some(_), _) => out.push_str(SUPPORTED),
            // An empty one says that it cannot be locked.
            (Live::SupportedLock, None, _) if facts.saved.is_some() => {}
            (Live::LockDiscovery, ..) => {
                for (lock, root) in facts.locks {
                    push_active_lock(out, lock, root, self.now_ms);
                }
            }
            (Live::QuotaUsed | Live::QuotaAvailable, ..) => return push_quota(out, live, facts.quota),
            (Live::OcSize, Some(node), _) => push_display(out, node.size),
            (Live::OcId | Live::OcFileId, Some(node), _) => push_display(out, node.id),
            (Live::OcPermissions, Some(_), file) => out.push_str(match (facts.role, file) {
                (Role::Reader, _) => "G",
                (_, Some(_)) if facts.pinned => "GW",
                (_, None) if facts.pinned => "GCK",
                (_, Some(_)) => "GDNVW",
                (_, None) => "GDNVCK",
            }),
            (Live::OcChecksums, ..) => match facts.checksums {
                Some(checksums) => {
                    let _ = write!(out, "<oc:checksum>{checksums}</oc:checksum>");
                }
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

fn push_quota(out: &mut String, live: Live, quota: Option<Quota>) -> bool {
    // Without a quota there is no number of available bytes; RFC 4331 section 3 has the property absent then.
    let value = quota.and_then(|quota| if live == Live::QuotaUsed { Some(quota.used) } else { quota.available });
    if let Some(bytes) = value {
        push_display(out, bytes);
    }
    value.is_some()
}

fn push_display(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

fn push_content_type(out: &mut String, name: &str) {
    let (kind, charset) = holdfast_http::mime_of_name(name);
    out.push_str(kind);
    out.push_str(charset);
}

fn push_empty_live(out: &mut String, live: Live) {
    out.push('<');
    out.push_str(live.qualified());
    out.push_str("/>");
}

fn close_propstat(out: &mut String, status: &str) {
    out.push_str("</D:prop>");
    push_status(out, status);
    out.push_str("</D:propstat>");
}

fn is_display_name(property: &Property) -> bool {
    property.name == "displayname" && property.namespace == DAV
}
