//! The model in force: whoever holds the slot sees at its next look that another has taken over.

use super::Model;
use std::sync::{Arc, PoisonError, RwLock};

/// Holds one model. Clones are of the same slot.
#[derive(Clone, Debug)]
pub struct Slot(Arc<RwLock<Arc<Model>>>);

impl Slot {
    /// With this one, at first.
    pub fn new(model: Arc<Model>) -> Self {
        Self(Arc::new(RwLock::new(model)))
    }

    /// The one in force.
    pub fn model(&self) -> Arc<Model> {
        // Whoever held it only took or put an Arc: there is nothing that can be half done.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another is in force from now on.
    pub fn put(&self, model: Arc<Model>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = model;
    }
}

/// Of the same slot.
impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
