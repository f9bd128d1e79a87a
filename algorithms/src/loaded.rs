//! Tables and weights that arms and policies read: loaded and checked once, by name, shared by all
//! flows, and replaced while flows run.
//!
//! ```text
//! configuration ─ reads, checks ─▶ Loaded::put ─▶ Slot ◀─ Slot::get ─ a flow's arm or policy
//!                 what is learned ─────────────▶ Slot::put
//! ```

use sha2::{Digest, Sha256};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What can be loaded.
pub trait Loadable: Send + Sync + 'static {
    /// A hash of the content, by which people and logs tell one version from another.
    fn digest(&self) -> &str;
}

/// SHA-256 of the bytes, as a file's hash is written.
pub fn digest_of(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The place of one table or one set of weights. A clone is the same place: its owner sees at the
/// next [`Self::get`] that another version is in force.
pub struct Slot<T>(Arc<RwLock<Arc<T>>>);

impl<T> Slot<T> {
    pub fn new(first: Arc<T>) -> Self {
        Self(Arc::new(RwLock::new(first)))
    }

    /// The version in force.
    pub fn get(&self) -> Arc<T> {
        // A panic elsewhere leaves a whole Arc behind: nothing can be half done.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another version is in force from now on.
    pub fn put(&self, next: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Slot<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: Loadable> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.get().digest()).finish()
    }
}

/// A slot of any type, for the list.
trait AnySlot: Any + Send + Sync {
    fn digest(&self) -> String;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Loadable> AnySlot for Slot<T> {
    fn digest(&self) -> String {
        self.get().digest().to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// All that is loaded, by name. A clone is the same list.
#[derive(Clone, Default)]
pub struct Loaded(Arc<Mutex<BTreeMap<String, Box<dyn AnySlot>>>>);

impl Loaded {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Box<dyn AnySlot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it by that name. What was there of the same type is replaced, in running flows too;
    /// what was there of another type stays with the flows that have it.
    pub fn put<T: Loadable>(&self, name: &str, item: Arc<T>) -> Slot<T> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(name).and_then(|it| it.as_any().downcast_ref::<Slot<T>>()) {
            slot.put(item);
            return slot.clone();
        }
        let slot = Slot::new(item);
        slots.insert(name.to_owned(), Box::new(slot.clone()));
        slot
    }

    /// The slot of that name and type, if one is loaded.
    pub fn slot<T: Loadable>(&self, name: &str) -> Option<Slot<T>> {
        self.lock().get(name)?.as_any().downcast_ref::<Slot<T>>().cloned()
    }

    /// The name of each, with the digest of the version in force.
    pub fn list(&self) -> Vec<(String, String)> {
        self.lock().iter().map(|(name, slot)| (name.clone(), slot.digest())).collect()
    }
}

/// The same content by the same names.
impl PartialEq for Loaded {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.list() == other.list()
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.list()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Words(&'static str);
    struct Other;

    impl Loadable for Words {
        fn digest(&self) -> &str {
            self.0
        }
    }

    impl Loadable for Other {
        fn digest(&self) -> &str {
            "other"
        }
    }

    #[test]
    fn a_flow_that_has_a_slot_sees_the_next_version() {
        let loaded = Loaded::default();
        assert!(loaded.slot::<Words>("table").is_none());
        let mine = loaded.put("table", Arc::new(Words("first")));
        let of_a_flow = loaded.slot::<Words>("table").expect("it is loaded");
        assert_eq!(of_a_flow, mine);
        loaded.put("table", Arc::new(Words("second")));
        assert_eq!(of_a_flow.get().0, "second");
        mine.put(Arc::new(Words("third")));
        assert_eq!(loaded.list(), [("table".to_owned(), "third".to_owned())]);
    }

    #[test]
    fn a_name_of_another_type_is_not_given_out() {
        let loaded = Loaded::default();
        let words = loaded.put("table", Arc::new(Words("first")));
        loaded.put("table", Arc::new(Other));
        assert!(loaded.slot::<Words>("table").is_none() && loaded.slot::<Other>("table").is_some());
        assert_eq!(words.get().0, "first", "a flow that has it keeps it");
    }

    #[test]
    fn equal_lists_have_the_same_content_by_the_same_names() {
        let [a, b, c] = [(); 3].map(|()| Loaded::default());
        a.put("table", Arc::new(Words("first")));
        b.put("table", Arc::new(Words("first")));
        c.put("table", Arc::new(Words("second")));
        assert!(a == b && a != c);
    }
}
