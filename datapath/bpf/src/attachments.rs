//! What agents of any process have registered and attached on this host, for `remuda doctor`.

use crate::native::{available, registered};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter};
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The name of our program that takes over the sockets of a cgroup.
const ASSIGN: &str = "remuda_assign";

/// Without CAP_SYS_ADMIN, nothing can be seen and both lists are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachments {
    /// Algorithms of BPF programs, ours and others, by their names for `TCP_CONGESTION`.
    pub algorithms: Vec<String>,
    /// The ids (inode numbers) of cgroups whose new sockets are taken over.
    pub cgroups: BTreeSet<u64>,
}

impl Attachments {
    /// Those of this moment.
    pub fn look() -> Self {
        let (all, own) = (registered(), available());
        let is_own = |name: &&str| own.split_whitespace().any(|it| it == *name);
        let algorithms = all.split_whitespace().filter(|name| !is_own(name)).map(Into::into);
        let of_ours = ProgInfoIter::default().filter(|program| program.name == OsStr::new(ASSIGN));
        let programs: BTreeSet<u32> = of_ours.map(|program| program.id).collect();
        let cgroups = LinkInfoIter::default().filter_map(|link| match link.info {
            LinkTypeInfo::Cgroup(about) => {
                programs.contains(&link.prog_id).then_some(about.cgroup_id)
            }
            _ => None,
        });
        Self { algorithms: algorithms.collect(), cgroups: cgroups.collect() }
    }
}
