//! The agent's side of admission (bpf/admission.h): who may have flows, how many, and who was
//! refused.

use crate::Error;
use crate::error::tried;
use crate::layout::{self, Refusal, USER_ALLOWED, USER_UNLIMITED, USERS, Vacated};
use crate::maps::Map;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput, ProgramMut};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `SO_NETNS_COOKIE`, include/uapi/asm-generic/socket.h.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Who may have flows, and how many. Root always may, without a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The uids whose sockets may run the name; `None` means every user's.
    pub users: Option<BTreeSet<u32>>,
    /// The uids that have no quota.
    pub unlimited: BTreeSet<u32>,
    /// A user may have this share of the slots that others leave, in percent.
    pub user_percent: u32,
    /// A cgroup of the second level may have this share, in percent.
    pub cgroup_percent: u32,
}

impl Default for Admission {
    fn default() -> Self {
        Self { users: None, unlimited: BTreeSet::new(), user_percent: 50, cgroup_percent: 75 }
    }
}

impl Admission {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let users = self.flags().len();
        if users > USERS { Err(Error::Users(users)) } else { Ok(()) }
    }

    fn flags(&self) -> BTreeMap<u32, u32> {
        let mut flags = BTreeMap::new();
        for (users, flag) in [
            (self.users.as_ref().unwrap_or(&BTreeSet::new()), USER_ALLOWED),
            (&self.unlimited, USER_UNLIMITED),
        ] {
            for uid in users {
                *flags.entry(*uid).or_default() |= flag;
            }
        }
        flags
    }

    pub(crate) fn write_users(&self, map: &MapHandle) -> Result<(), Error> {
        for (uid, flags) in self.flags() {
            let done = map.update(&uid.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::ANY);
            done.map_err(tried("the users of the name"))?;
        }
        Ok(())
    }
}

/// Why a socket did not become a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The name is restricted to other users.
    NotAllowed,
    /// Its user has the slots that it may have.
    UserQuota,
    /// Its cgroup has the slots that it may have.
    CgroupQuota,
    /// No slot is free.
    TableFull,
}

impl Reason {
    fn of(number: u32) -> Option<Self> {
        match number {
            layout::NOT_ALLOWED => Some(Self::NotAllowed),
            layout::USER_QUOTA => Some(Self::UserQuota),
            layout::CGROUP_QUOTA => Some(Self::CgroupQuota),
            layout::FULL => Some(Self::TableFull),
            _ => None,
        }
    }
}

/// Sockets that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub uid: u32,
    /// The cgroup of the sockets themselves, which may lie below the one that has the quota.
    pub cgroup_id: u64,
    pub reason: Reason,
    /// How many since the datapath was loaded.
    pub sockets: u64,
}

pub(crate) fn refusals(map: &Map) -> Result<Vec<Refused>, Error> {
    let mut all = Vec::new();
    for key in map.keys().map_err(tried("the refused sockets"))? {
        let found = map.lookup(&key);
        // An entry may have made room for another since its key was read.
        let Some(count) = found.as_deref().and_then(|it| it.first_chunk()) else { continue };
        let Some(Refusal { cgroup_id, uid, reason }) = layout::read(&key) else { continue };
        let Some(reason) = Reason::of(reason) else { continue };
        all.push(Refused { uid, cgroup_id, reason, sockets: u64::from_ne_bytes(*count) });
    }
    Ok(all)
}

/// Frees the slot of a flow whose end the kernel side could not see. Does nothing if the flow does
/// not have it any more.
pub(crate) fn vacate(program: &ProgramMut<'_>, sid: u32) -> Result<(), Error> {
    let mut context = [0; size_of::<Vacated>()];
    context.copy_from_slice(&sid.to_ne_bytes());
    let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
    program.test_run(input).map(drop).map_err(tried("freeing a slot"))
}

/// The cookie of this thread's network namespace.
pub(crate) fn own_netns() -> Result<u64, Error> {
    let failed = |source| Error::File { path: "SO_NETNS_COOKIE".to_owned(), source };
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: an open socket, and room for `length` bytes; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(failed(io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_two_flags_is_one_entry() {
        let admission = Admission {
            users: Some(BTreeSet::from([7, 8])),
            unlimited: BTreeSet::from([8, 9]),
            ..Admission::default()
        };
        let both = USER_ALLOWED | USER_UNLIMITED;
        let want = BTreeMap::from([(7, USER_ALLOWED), (8, both), (9, USER_UNLIMITED)]);
        assert_eq!(admission.flags(), want);
        assert!(Admission::default().flags().is_empty());
    }

    #[test]
    fn more_users_than_the_map_holds_are_refused_by_the_limit() {
        let users = |count| Admission { users: Some((1..=count).collect()), ..Default::default() };
        assert!(users(USERS as u32).check().is_ok());
        let error = users(USERS as u32 + 1).check().expect_err("it is refused").to_string();
        assert!(error.starts_with("4097 users") && error.contains("4096"), "{error}");
    }

    #[test]
    fn a_thread_has_the_cookie_of_its_namespace() {
        let own = own_netns().expect("Linux 5.14");
        assert_eq!(own_netns().expect("again"), own);
        assert_ne!(own, 0);
    }
}
