//! Names that are known at run time only, and live as long as the process: each is kept once.

use std::sync::{Mutex, PoisonError};

/// The text for good. Who calls it bounds how many there are: nothing is ever let go.
pub fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| **known == text) {
        return known;
    }
    let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
    kept.push(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_kept_once() {
        let first = kept("a name of this test");
        assert_eq!(first.as_ptr(), kept(&String::from("a name of this test")).as_ptr());
        assert_ne!(first, kept("another name of this test"));
    }
}
