//! What applications have said of sockets that are no flows yet: kept for a while, and no more of
//! a user's than a bound.

use crate::host::Key;
use remuda_algorithms::wants::Wants;
use std::collections::VecDeque;

/// A socket that is no flow by then is asked for again. It may be made long before it connects,
/// and a handshake takes two minutes at most.
const KEPT_NS: u64 = 300_000_000_000;
/// Wishes of one user; the oldest makes room.
const OF_USER_MAX: usize = 256;
/// Wishes of all users.
const WISHES_MAX: usize = 4_096;

/// What an application wants of its socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    pub wants: Wants,
    /// Whose process has said so.
    pub uid: u32,
}

/// Which socket: no other one of the host ever has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketId {
    /// Its `SO_COOKIE`.
    pub cookie: u64,
    /// The flow that it is by its datapath, which the agent may not have heard of.
    pub key: Option<Key>,
}

impl SocketId {
    /// Whether it is the flow of that key, which its datapath says has that cookie, or 0 if that
    /// is unknown.
    pub fn is(&self, key: &Key, cookie: u64) -> bool {
        self.key.as_ref() == Some(key) || (cookie != 0 && cookie == self.cookie)
    }
}

#[derive(Debug)]
struct Waiting {
    socket: SocketId,
    wish: Wish,
    since_ns: u64,
}

/// See the module. Oldest first.
#[derive(Debug, Default)]
pub struct Wishes(VecDeque<Waiting>);

impl Wishes {
    /// Keeps a wish. It replaces an older one of the same socket.
    pub fn keep(&mut self, socket: SocketId, wish: Wish, now_ns: u64) {
        self.forget_old(now_ns);
        self.0.retain(|waiting| waiting.socket.cookie != socket.cookie);
        let of_user = self.0.iter().filter(|waiting| waiting.wish.uid == wish.uid).count();
        if of_user >= OF_USER_MAX
            && let Some(oldest) = self.0.iter().position(|w| w.wish.uid == wish.uid)
        {
            self.0.remove(oldest);
        }
        if self.0.len() >= WISHES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Waiting { socket, wish, since_ns: now_ns });
    }

    /// The wish for a flow that starts.
    pub fn take(&mut self, key: &Key, cookie: u64, now_ns: u64) -> Option<Wish> {
        self.forget_old(now_ns);
        let at = self.0.iter().position(|waiting| waiting.socket.is(key, cookie))?;
        self.0.remove(at).map(|waiting| waiting.wish)
    }

    fn forget_old(&mut self, now_ns: u64) {
        while self.0.front().is_some_and(|oldest| now_ns - oldest.since_ns >= KEPT_NS) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::Peer;

    fn wish(uid: u32, wants: &str) -> Wish {
        Wish { wants: wants.parse().expect("a name"), uid }
    }

    fn cookie(cookie: u64) -> SocketId {
        SocketId { cookie, key: None }
    }

    fn key(sid: u32) -> Key {
        (Peer::Bpf, sid)
    }

    #[test]
    fn a_wish_is_for_one_socket_and_once() {
        let mut wishes = Wishes::default();
        wishes.keep(cookie(7), wish(1, "delay"), 0);
        wishes.keep(cookie(7), wish(1, "throughput"), 0);
        assert_eq!(wishes.take(&key(1), 8, 0), None);
        assert_eq!(wishes.take(&key(1), 0, 0), None, "an unknown cookie is nobody's");
        assert_eq!(wishes.take(&key(1), 7, 0), Some(wish(1, "throughput")));
        assert_eq!(wishes.take(&key(1), 7, 0), None);
        wishes.keep(SocketId { cookie: 9, key: Some(key(3)) }, wish(1, "delay"), 0);
        assert_eq!(wishes.take(&key(3), 0, 0), Some(wish(1, "delay")));
    }

    #[test]
    fn it_is_forgotten_after_its_time() {
        let mut wishes = Wishes::default();
        wishes.keep(cookie(1), wish(1, "delay"), 0);
        wishes.keep(cookie(2), wish(1, "delay"), KEPT_NS - 1);
        assert_eq!(wishes.take(&key(1), 1, KEPT_NS), None);
        assert_eq!(wishes.take(&key(1), 2, KEPT_NS), Some(wish(1, "delay")));
    }

    #[test]
    fn a_user_with_many_displaces_its_own() {
        let mut wishes = Wishes::default();
        wishes.keep(cookie(u64::MAX), wish(1, "delay"), 0);
        for n in 1..10_000 {
            wishes.keep(cookie(n), wish(2, "delay"), 0);
        }
        assert_eq!(wishes.0.len(), OF_USER_MAX + 1);
        assert_eq!(wishes.take(&key(1), u64::MAX, 0), Some(wish(1, "delay")));
        assert_eq!(wishes.take(&key(1), 1, 0), None);
        for uid in 0..1_000 {
            (0..50)
                .for_each(|n| wishes.keep(cookie(u64::from(uid) << 32 | n), wish(uid, "delay"), 0));
        }
        assert_eq!(wishes.0.len(), WISHES_MAX);
    }
}
