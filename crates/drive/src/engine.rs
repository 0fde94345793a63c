//! The local engine. (In progress.)
