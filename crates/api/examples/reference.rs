//! Prints the reference of the API, which is kept as `docs/api.md`.

#![expect(clippy::print_stdout, reason = "it is a program that prints")]

fn main() {
    print!("{}", holdfast_api::reference::markdown(&holdfast_api::document()));
}
