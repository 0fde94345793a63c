//! The API's description for people, made of its OpenAPI document: Markdown for `docs/api.md`, a page for the program itself.

use crate::routes::common_failures;
use serde_json::{Map, Value};
use std::fmt::Write;
use utoipa::openapi::OpenApi;

/// The page's style, in a file of its own since the page may have nothing inline.
pub(crate) const STYLE: &str = include_str!("reference.css");
/// The page needs that and nothing else.
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What a text is made of, in whichever form.
trait Form {
    fn heading(&mut self, level: usize, text: &str, anchor: &str);
    fn prose(&mut self, text: &str);
    fn table(&mut self, title: &str, head: &[&str], rows: &[Vec<String>]);
}

/// The reference as Markdown.
pub fn markdown(document: &OpenApi) -> String {
    let mut form = Markdown(String::from(
        "<!-- Made by `cargo run -p holdfast-api --example reference`; a test compares. -->\n\n",
    ));
    write(&mut form, document);
    form.0
}

/// The reference as a page.
pub(crate) fn page(document: &OpenApi) -> String {
    let mut form = Html { body: String::new(), contents: String::new() };
    write(&mut form, document);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Holdfast API</title><link rel=\"stylesheet\" href=\"reference.css\"></head><body>\
         <nav aria-label=\"Contents\"><ul>{}</ul></nav><main>{}</main></body></html>\n",
        form.contents, form.body
    )
}

fn write(form: &mut impl Form, document: &OpenApi) {
    let document = serde_json::to_value(document).unwrap_or_default();
    form.heading(1, "The API", "api");
    form.prose(text(&document["info"]["description"]));
    form.prose(
        "Every error is a problem (RFC 9457) of the type `application/problem+json`: see `Problem` at the end. Times are milliseconds \
         since 1970, sizes are bytes. Unknown fields are refused. The same for programs: `/api/v1/openapi.json`.",
    );
    let common = common_failures();
    let rows: Vec<Vec<String>> =
        common.iter().map(|(status, what)| vec![status.clone(), code("Problem"), line_of(what)]).collect();
    form.prose("Every route may answer these; below are those that only some have:");
    form.table("Answers of every route", &["Status", "Body", "What"], &rows);
    for tag in document["tags"].as_array().into_iter().flatten().map(|tag| text(&tag["name"])) {
        form.heading(2, tag, tag);
        for (path, method, operation) in operations(&document, tag) {
            describe(form, (path, method, operation), &common);
        }
    }
    form.heading(2, "Bodies", "bodies");
    for (name, schema) in object(&document["components"]["schemas"]) {
        form.heading(3, name, name);
        form.prose(text(&schema["description"]));
        shape(form, schema);
    }
}

/// The operations of a tag by path.
fn operations<'d>(document: &'d Value, tag: &str) -> Vec<(&'d str, &'d str, &'d Value)> {
    let all = object(&document["paths"]).iter().flat_map(|(path, methods)| {
        object(methods).iter().map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    let mut found: Vec<_> = all.filter(|(_, _, operation)| operation["tags"][0] == tag).collect();
    found.sort_by_key(|(path, method, _)| (*path, *method));
    found
}

fn describe(form: &mut impl Form, (path, method, operation): (&str, &str, &Value), common: &[(String, String)]) {
    let name = format!("{} {path}", method.to_uppercase());
    form.heading(3, &name, text(&operation["operationId"]));
    form.prose(text(&operation["summary"]));
    form.prose(text(&operation["description"]));
    let parameters: Vec<Vec<String>> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| {
            let must = if it["required"] == true { "yes" } else { "" };
            vec![
                code(text(&it["name"])),
                text(&it["in"]).into(),
                kind(&it["schema"]),
                must.into(),
                line(&it["description"]),
            ]
        })
        .collect();
    form.table("Parameters", &["Name", "In", "Type", "Needed", "What"], &parameters);
    let bodies = content(&operation["requestBody"]);
    if !bodies.is_empty() {
        form.prose(&format!("Body: {}. {}", bodies.join(", "), line(&operation["requestBody"]["description"])));
    }
    let answers: Vec<Vec<String>> = object(&operation["responses"])
        .iter()
        .filter(|(status, answer)| {
            !common.iter().any(|(known, what)| known == *status && what == text(&answer["description"]))
        })
        .map(|(status, answer)| vec![status.clone(), content(answer).join(", "), line(&answer["description"])])
        .collect();
    form.table("Answers", &["Status", "Body", "What"], &answers);
}

/// A schema's fields or values.
fn shape(form: &mut impl Form, schema: &Value) {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| code(text(value))).collect();
        return form.prose(&format!("One of {}.", values.join(", ")));
    }
    let parts: Vec<&Value> = ["oneOf", "anyOf", "allOf"]
        .into_iter()
        .flat_map(|key| schema[key].as_array().into_iter().flatten())
        .chain([schema])
        .collect();
    let mut rows = Vec::new();
    for part in parts {
        if let Some(value) = part["enum"].get(0).filter(|_| part != schema) {
            rows.push(vec![code(text(value)), "value".into(), String::new(), line(&part["description"])]);
        }
        let needed: Vec<&str> = part["required"].as_array().into_iter().flatten().map(text).collect();
        for (name, field) in object(&part["properties"]) {
            let must = if needed.contains(&name.as_str()) { "yes" } else { "" };
            rows.push(vec![code(name), kind(field), must.into(), line(&field["description"])]);
        }
        if part != schema && part.get("$ref").is_some() {
            form.prose(&format!("All of {}.", kind(part)));
        }
    }
    form.table("Fields", &["Name", "Type", "Always", "What"], &rows);
}

/// Types of a body with their schemas.
fn content(body: &Value) -> Vec<String> {
    let one = |(media, it): (&String, &Value)| match (media.as_str(), kind(&it["schema"])) {
        ("application/json" | "application/problem+json", kind) => kind,
        (media, _) => code(media),
    };
    object(&body["content"]).iter().map(one).collect()
}

/// A schema in a word.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return code(name.rsplit('/').next().unwrap_or_default());
    }
    let alternatives = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).or(schema["allOf"].as_array());
    if let Some(alternatives) = alternatives {
        return alternatives.iter().filter(|it| it["type"] != "null").map(kind).collect::<Vec<_>>().join(" or ");
    }
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().map(text).filter(|name| *name != "null").collect::<Vec<_>>().join(" or "),
        name => text(name).to_owned(),
    };
    if name == "array" { format!("list of {}", kind(&schema["items"])) } else { name }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn line(value: &Value) -> String {
    line_of(text(value))
}

fn line_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn object(value: &Value) -> &Map<String, Value> {
    static NONE: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    value.as_object().unwrap_or_else(|| NONE.get_or_init(Map::new))
}

struct Markdown(String);

impl Form for Markdown {
    fn heading(&mut self, level: usize, text: &str, _anchor: &str) {
        let text = if level == 3 { code(text) } else { text.to_owned() };
        let _ = writeln!(self.0, "{} {text}\n", "#".repeat(level));
    }

    fn prose(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let _ = writeln!(self.0, "{}\n", text.trim());
        }
    }

    fn table(&mut self, _title: &str, head: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(self.0, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for row in rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(self.0, "| {} |", cells.join(" | "));
        }
        self.0.push('\n');
    }
}

struct Html {
    body: String,
    contents: String,
}

/// Text with `code` in it as HTML.
fn html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let parts: Vec<&str> = escaped.split('`').collect();
    // Without a closing mark it is none.
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let tags =
        |(at, part): (usize, &&str)| if at % 2 == 1 { format!("<code>{part}</code>") } else { (*part).to_owned() };
    parts.iter().enumerate().map(tags).collect()
}

impl Form for Html {
    fn heading(&mut self, level: usize, text: &str, anchor: &str) {
        let (text, anchor) = (html(text), html(anchor));
        let _ = write!(self.body, "<h{level} id=\"{anchor}\">{text}</h{level}>");
        if level == 2 {
            let _ = write!(self.contents, "<li><a href=\"#{anchor}\">{text}</a></li>");
        }
    }

    fn prose(&mut self, text: &str) {
        for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
            let _ = write!(self.body, "<p>{}</p>", html(part.trim()));
        }
    }

    fn table(&mut self, title: &str, head: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let cells = |row: &[String], begin: &str, end: &str| {
            row.iter().fold(String::new(), |cells, cell| cells + begin + &html(cell) + end)
        };
        let heads: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
        let head = cells(&heads, "<th scope=\"col\">", "</th>");
        let rows = rows.iter().fold(String::new(), |all, row| all + "<tr>" + &cells(row, "<td>", "</td>") + "</tr>");
        let _ = write!(
            self.body,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_body_is_in_the_reference_and_nothing_is_markup_by_accident() {
        let document = crate::document();
        let (markdown, page) = (markdown(&document), page(&document));
        let value = serde_json::to_value(&document).expect("serializes");
        for (path, methods) in object(&value["paths"]) {
            for method in object(methods).keys() {
                let name = format!("{} {path}", method.to_uppercase());
                assert!(markdown.contains(&code(&name)), "{name}");
                assert!(page.contains(&format!(">{}</h3>", html(&name))), "{name}");
            }
        }
        assert_eq!(html("a<b> `c&d` \"e\""), "a&lt;b&gt; <code>c&amp;d</code> &quot;e&quot;");
        assert!(!page.contains(" style=") && !page.contains("<script"));
    }
}
