//! The type of a file, from its name alone: content is not looked at.

/// The value of `Content-Type`. Text is taken for UTF-8, as names are; an unknown ending is bytes.
pub fn of_name(name: &str) -> (&'static str, &'static str) {
    let guess = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    (guess, if guess.starts_with("text/") { "; charset=utf-8" } else { "" })
}
