//! Link.
