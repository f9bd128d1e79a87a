//! Names and facts that are known at run time only, and live as long as the process.

use std::any::{Any, TypeId};
use std::sync::{Mutex, PoisonError};

/// What is interned, by its type.
static INTERNED: Mutex<Vec<(TypeId, &'static (dyn Any + Send + Sync))>> = Mutex::new(Vec::new());

/// The value for good; equal ones share one place. The caller bounds how many there are, as nothing
/// is ever freed.
pub fn interned<T: PartialEq + Send + Sync + 'static>(value: T) -> &'static T {
    let mut interned = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    let same_type = interned.iter().filter(|(id, _)| *id == TypeId::of::<T>());
    let known = same_type.filter_map(|(_, known)| known.downcast_ref::<T>());
    if let Some(known) = known.into_iter().find(|known| **known == value) {
        return known;
    }
    let new: &'static T = Box::leak(Box::new(value));
    interned.push((TypeId::of::<T>(), new));
    new
}

/// The text for good.
pub fn interned_str(text: &str) -> &'static str {
    interned(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_place() {
        let first = interned_str("a name of this test");
        assert_eq!(first.as_ptr(), interned_str("a name of this test").as_ptr());
        assert_ne!(first, interned_str("another name of this test"));
        assert!(std::ptr::eq(interned([1, 2]), interned([1, 2])));
    }
}
