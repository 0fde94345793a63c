//! `If`, `If-Match` and `If-None-Match` (`If-Range` is read as a tag list, too).

use holdfast_dav::limits::{ENTITY_TAGS_MAX, IF_CONDITIONS_MAX, IF_RESOURCES_MAX};
use holdfast_dav::parse::{Condition, EntityTag, IfHeader, TagList, if_header, tag_list};

/// One header's value, read as both.
pub fn conditions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(header) = if_header(text) {
        assert!(!header.0.is_empty() && header.0.len() <= IF_RESOURCES_MAX);
        let conditions: usize = header.0.iter().flat_map(|group| &group.lists).map(Vec::len).sum();
        assert!(conditions > 0 && conditions <= IF_CONDITIONS_MAX && header.tokens().len() <= conditions);
        assert!(
            header.0.iter().all(|group| !group.lists.is_empty() && group.lists.iter().all(|list| !list.is_empty()))
        );
        assert_eq!(if_header(&write(&header)).expect("reads what was written"), header);
    }
    if let Ok(TagList::Tags(tags)) = tag_list(text) {
        assert!(tags.len() <= ENTITY_TAGS_MAX);
        let written: Vec<String> = tags.iter().map(write_tag).collect();
        assert_eq!(tag_list(&written.join(", ")).expect("reads what was written"), TagList::Tags(tags));
    }
}

fn write(header: &IfHeader) -> String {
    let mut text = String::new();
    for group in &header.0 {
        if let Some(resource) = &group.resource {
            text.extend(["<", resource, "> "]);
        }
        for list in &group.lists {
            let list: Vec<String> = list.iter().map(write_condition).collect();
            text.extend(["(", &list.join(" "), ")"]);
        }
    }
    text
}

fn write_condition(condition: &Condition) -> String {
    match condition {
        Condition::Token { not, token } => format!("{}<{token}>", if *not { "Not " } else { "" }),
        Condition::Tag { not, tag } => format!("{}[{}]", if *not { "Not " } else { "" }, write_tag(tag)),
    }
}

fn write_tag(tag: &EntityTag) -> String {
    format!("{}{}", if tag.weak { "W/" } else { "" }, tag.quoted)
}
