//! The type of a file, from its name alone: content is not looked at.

/// The value of `Content-Type`. Text is taken for UTF-8, as names are; an unknown ending is bytes.
pub fn of_name(name: &str) -> (&'static str, &'static str) {
    let guess = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    (guess, if guess.starts_with("text/") { "; charset=utf-8" } else { "" })
}

/// The type of somebody's file where the answer is of the origin of the drive's own pages: image, sound, film and PDF as they are,
/// every kind of text as plain text, the rest as bytes. So nothing is ever a document that could act as a page of the drive.
pub fn safe_of_name(name: &str) -> &'static str {
    const TEXTS: [&str; 8] = ["json", "xml", "javascript", "yaml", "toml", "sql", "x-sh", "graphql"];
    let (kind, _) = of_name(name);
    let (class, rest) = kind.split_once('/').unwrap_or((kind, ""));
    match class {
        _ if class == "text" || TEXTS.iter().any(|text| rest.ends_with(text)) => "text/plain; charset=utf-8",
        "image" | "audio" | "video" => kind,
        _ if kind == "application/pdf" => kind,
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_could_run_is_plain_text_or_bytes() {
        for name in ["a.html", "a.xhtml", "a.svg", "a.js", "a.mjs", "a.xml", "a.css", "a.xsl", "a.JSON", "a.rss"] {
            assert_eq!(safe_of_name(name), "text/plain; charset=utf-8", "{name}");
        }
        for name in ["a.mht", "a.swf", "a.zip", "a.wasm", "a", "a.unheard", "a.svgz.gz"] {
            assert_eq!(safe_of_name(name), "application/octet-stream", "{name}");
        }
        assert_eq!(safe_of_name("a.PNG"), "image/png");
        assert_eq!(safe_of_name("a.mp4"), "video/mp4");
        assert_eq!(safe_of_name("a.pdf"), "application/pdf");
    }
}
