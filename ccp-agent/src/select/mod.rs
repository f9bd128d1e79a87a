//! Selects flows by port, cgroup, mark, destination, user and network namespace. Preferences
//! (`[[prefer]]`) and rules (`[[rule]]`) select flows in the same words.

mod cgroup;
mod cgroups;
mod keys;
mod network;
mod owner;
mod selector;

pub use cgroup::Cgroup;
pub use cgroups::{Live, Seen};
pub use keys::{KEYS, Keys, Parts};
pub use network::{Mark, Ports};
pub use owner::{Namespace, User};
pub use selector::Selector;
