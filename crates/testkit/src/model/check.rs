//! Comparing a whole tree on a server with the model.

use std::collections::BTreeMap;

use super::play::{Failure, PROPERTY_NAMESPACE, place};
use super::tree::{Model, Node, TreePath};
use crate::http::{Client, Resource};

/// Compares the tree below the folder `base` with the model: every name, kind, size and dead
/// property by PROPFIND, every byte by GET. Nothing may be missing and nothing extra.
pub fn check_tree(client: &mut Client, base: &str, model: &Model) -> Result<(), Failure> {
    for (path, node) in model.nodes() {
        if model.is_folder(path) {
            check_folder(client, base, model, path)?;
        } else {
            check_content(client, base, path, node)?;
        }
    }
    Ok(())
}

/// Compares with the model before an operation without an answer and, if that differs, after it.
/// Returns the one that holds.
pub fn check_either(client: &mut Client, base: &str, before: Model, after: Model) -> Result<Model, Failure> {
    let not_done = match check_tree(client, base, &before) {
        Ok(()) => return Ok(before),
        Err(Failure::Mismatch(text)) => text,
        Err(error) => return Err(error),
    };
    match check_tree(client, base, &after) {
        Ok(()) => Ok(after),
        Err(Failure::Mismatch(done)) => {
            Err(Failure::Mismatch(format!("neither done ({done}) nor not done ({not_done})")))
        }
        Err(error) => Err(error),
    }
}

fn check_folder(client: &mut Client, base: &str, model: &Model, folder: &TreePath) -> Result<(), Failure> {
    let here = place(base, folder);
    let listed = client.list(&format!("{here}/"), "1")?;
    let mut found: BTreeMap<&str, &Resource> = BTreeMap::new();
    for resource in &listed {
        if found.insert(&resource.path, resource).is_some() {
            return Err(Failure::Mismatch(format!("{} is listed twice", resource.path)));
        }
    }
    let members = model.nodes().filter(|(path, _)| path.parent().as_ref() == Some(folder));
    let itself = model.node(folder).map(|node| (folder, node));
    for (path, node) in members.chain(itself) {
        let place = place(base, path);
        let Some(resource) = found.remove(place.as_str()) else {
            return Err(Failure::Mismatch(format!("{place} is missing in {here}")));
        };
        check_resource(resource, node)?;
    }
    match found.keys().next() {
        Some(extra) => Err(Failure::Mismatch(format!("{extra} is in {here} and should not be"))),
        None => Ok(()),
    }
}

fn check_resource(resource: &Resource, node: &Node) -> Result<(), Failure> {
    let place = &resource.path;
    if resource.is_folder != node.content.is_none() {
        return Err(Failure::Mismatch(format!("{place}: folder instead of file or reverse")));
    }
    let length = node.content.as_ref().map(|content| content.len() as u64);
    if !resource.is_folder && resource.length() != length {
        let listed = resource.length();
        return Err(Failure::Mismatch(format!("{place}: {listed:?} bytes, not {length:?}")));
    }
    let properties: BTreeMap<String, String> = resource
        .properties
        .iter()
        .filter(|((namespace, _), (status, _))| namespace == PROPERTY_NAMESPACE && *status == 200)
        .map(|((_, name), (_, text))| (name.clone(), text.clone()))
        .collect();
    if properties != node.properties {
        let wanted = &node.properties;
        return Err(Failure::Mismatch(format!("{place}: {properties:?}, not {wanted:?}")));
    }
    Ok(())
}

fn check_content(client: &mut Client, base: &str, path: &TreePath, node: &Node) -> Result<(), Failure> {
    let answer = client.get(&place(base, path))?;
    let wanted = node.content.as_deref().unwrap_or_default();
    if answer.status != 200 || answer.body != wanted {
        let (status, length) = (answer.status, answer.body.len());
        let message = format!("{path}: status {status}, {length} bytes that differ");
        return Err(Failure::Mismatch(message));
    }
    Ok(())
}
