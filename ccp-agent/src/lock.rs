//! Locking what several threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it; a panic of the thread that had the lock does not end this one.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
