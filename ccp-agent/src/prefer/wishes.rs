//! Preferences that applications have set for sockets that are not flows yet. They are stored for a
//! limited time, with a limit for each user.

use crate::datapath::Key;
use remuda_algorithms::wants::Wants;
use std::collections::VecDeque;

/// Nanoseconds after which a wish is dropped. An application may create a socket long before it
/// connects, and a handshake takes two minutes at most.
const LIFETIME_NS: u64 = 300_000_000_000;
/// Wishes of one user; a further one replaces that user's oldest.
const OF_USER_MAX: usize = 256;
/// Wishes of all users; a further one replaces the oldest.
const WISHES_MAX: usize = 4_096;

/// The preference that an application has set for its socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    pub wants: Wants,
    /// The user of the application.
    pub uid: u32,
}

/// Identifies a socket; the kernel never reuses a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketId {
    /// The value of `SO_COOKIE`.
    pub cookie: u64,
    /// The datapath's name for the socket's flow, if there is one; the agent may not know that
    /// flow yet.
    pub key: Option<Key>,
}

impl SocketId {
    /// Whether this socket is the flow `key`. `cookie` is the flow's cookie as its datapath reports
    /// it, or 0 if unknown.
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

/// The stored wishes, oldest first.
#[derive(Debug, Default)]
pub struct Wishes(VecDeque<Waiting>);

impl Wishes {
    /// Stores a wish. It replaces an older one for the same socket.
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

    /// Removes and returns the wish for a flow that starts.
    pub fn take(&mut self, key: &Key, cookie: u64, now_ns: u64) -> Option<Wish> {
        self.forget_old(now_ns);
        let at = self.0.iter().position(|waiting| waiting.socket.is(key, cookie))?;
        self.0.remove(at).map(|waiting| waiting.wish)
    }

    fn forget_old(&mut self, now_ns: u64) {
        while self.0.front().is_some_and(|oldest| now_ns - oldest.since_ns >= LIFETIME_NS) {
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
        wishes.keep(cookie(2), wish(1, "delay"), LIFETIME_NS - 1);
        assert_eq!(wishes.take(&key(1), 1, LIFETIME_NS), None);
        assert_eq!(wishes.take(&key(1), 2, LIFETIME_NS), Some(wish(1, "delay")));
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
