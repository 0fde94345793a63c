//! Listings of folders that have no page of their own, made when publishing. They name what is published and nothing else.

use super::pages::clean;
use super::{Output, Site, Sources, escape};
use holdfast_base::size::format_bytes;
use holdfast_http::dates;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A line: name, link, size, time.
struct Line {
    link: String,
    bytes: Option<u64>,
    modified_ms: Option<i64>,
}

/// A listing for every folder without `index.html`.
pub(super) fn listings(site: &Site<'_>, sources: &Sources, outputs: &[Output]) -> Vec<Output> {
    let mut folders: BTreeMap<String, BTreeMap<String, Line>> = BTreeMap::new();
    let mut with_page = BTreeSet::new();
    let drafts: BTreeSet<&str> =
        site.pages.iter().filter(|page| page.front.draft).map(|page| page.route.as_str()).collect();
    let plain = sources.plain.iter().map(|(path, (bytes, ms))| (format!("/{path}"), Some(*bytes), *ms));
    let made = outputs.iter().map(|output| (output.route.clone(), Some(output.bytes.len() as u64), None));
    for (route, bytes, modified_ms) in plain.chain(made).filter(|(route, ..)| !drafts.contains(route.as_str())) {
        let Some((folder, name)) = route.rsplit_once('/') else { continue };
        if name == "index.html" {
            with_page.insert(folder.to_owned());
        }
        let link = escape::path(clean(&route).rsplit('/').next().unwrap_or(name));
        folders.entry(folder.to_owned()).or_default().insert(name.to_owned(), Line { link, bytes, modified_ms });
        let mut below = folder;
        while let Some((above, name)) = below.rsplit_once('/') {
            let folder = Line { link: escape::path(name) + "/", bytes: None, modified_ms: None };
            folders.entry(above.to_owned()).or_default().entry(format!("{name}/")).or_insert(folder);
            below = above;
        }
    }
    folders
        .into_iter()
        .filter(|(folder, _)| !with_page.contains(folder))
        .map(|(folder, lines)| Output {
            route: format!("{folder}/index.html"),
            bytes: page(&site.config.title, &folder, &lines).into(),
            kind: "text/html; charset=utf-8".into(),
            listing: true,
        })
        .collect()
}

fn page(site: &str, folder: &str, lines: &BTreeMap<String, Line>) -> String {
    let title = escape::text(&format!("{folder}/"));
    let site = escape::text(site);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title} {site}</title>\
         <style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}}\
         td{{padding:.25rem 1rem .25rem 0}}td:nth-child(2){{text-align:right}}</style></head><body><main><h1>{title}</h1>\n<table>\n"
    );
    if !folder.is_empty() {
        out.push_str("<tr><td><a href=\"../\">..</a></td><td></td><td></td></tr>\n");
    }
    for (name, line) in lines {
        let bytes = line.bytes.map(format_bytes).unwrap_or_default();
        let mut time = String::new();
        if let Some(ms) = line.modified_ms {
            dates::push_minute(&mut time, ms);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<tr><td><a href=\"./{}\">{}</a></td><td>{bytes}</td><td>{time}</td></tr>",
            escape::text(&line.link),
            escape::text(name)
        );
    }
    out.push_str("</table></main></body></html>\n");
    out
}
