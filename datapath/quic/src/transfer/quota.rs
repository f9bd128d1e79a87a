//! What all clients share, and how much of it one client may hold.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The key under which a client is counted: its address; for IPv6 the network of 64 bits, because
/// one host can use any address there.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        v4 => v4,
    }
}

/// Permits in total and for each client.
#[derive(Debug)]
pub struct Quota {
    total: Arc<Semaphore>,
    of_client_max: usize,
    clients: Mutex<HashMap<IpAddr, Client>>,
}

#[derive(Debug)]
struct Client {
    permits: Arc<Semaphore>,
    /// Permits that the client holds or waits for; without any the client is forgotten.
    users: usize,
}

/// One permit; dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    _own: OwnedSemaphorePermit,
    _total: OwnedSemaphorePermit,
    _user: User,
}

/// Counts one use of a client's entry.
#[derive(Debug)]
struct User {
    quota: Arc<Quota>,
    client: IpAddr,
}

impl Quota {
    pub fn new(max: usize, of_client_max: usize) -> Arc<Self> {
        let total = Arc::new(Semaphore::new(max));
        Arc::new(Self { total, of_client_max, clients: Mutex::default() })
    }

    /// Waits for a permit. Returns `None` if there is none within `limit`.
    pub async fn wait(self: &Arc<Self>, address: IpAddr, limit: Duration) -> Option<Permit> {
        let (user, permits) = self.enter(address);
        // The client's own permit comes first, so a client that has used up its own does not stand
        // in the queue for those of all.
        let both = async {
            let own = permits.acquire_owned().await.ok()?;
            let total = Arc::clone(&self.total).acquire_owned().await.ok()?;
            Some(Permit { _own: own, _total: total, _user: user })
        };
        tokio::time::timeout(limit, both).await.ok().flatten()
    }

    /// A permit, if there is one now.
    pub fn now(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let (user, permits) = self.enter(address);
        let own = permits.try_acquire_owned().ok()?;
        let total = Arc::clone(&self.total).try_acquire_owned().ok()?;
        Some(Permit { _own: own, _total: total, _user: user })
    }

    /// How many permits the client holds or waits for.
    pub fn users(&self, address: IpAddr) -> usize {
        self.lock().get(&client_of(address)).map_or(0, |client| client.users)
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> (User, Arc<Semaphore>) {
        let client = client_of(address);
        let mut clients = self.lock();
        let entry = clients.entry(client).or_insert_with(|| Client {
            permits: Arc::new(Semaphore::new(self.of_client_max)),
            users: 0,
        });
        entry.users += 1;
        (User { quota: Arc::clone(self), client }, Arc::clone(&entry.permits))
    }

    /// A panic elsewhere leaves the counts as they are, and they are right at any moment.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut clients = self.quota.lock();
        if let Some(entry) = clients.get_mut(&self.client) {
            entry.users -= 1;
            if entry.users == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_is_its_address_or_its_network_of_64_bits() {
        let rows = [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ];
        for (address, client) in rows {
            assert_eq!(client_of(ip(address)), ip(client), "{address}");
        }
    }

    #[tokio::test]
    async fn a_client_that_has_all_of_its_permits_leaves_others_theirs() {
        let quota = Quota::new(4, 2);
        let (greedy, other) = (ip("2001:db8::1"), ip("192.0.2.1"));
        let first = quota.wait(greedy, SHORT).await.expect("a permit");
        let second = quota.now(ip("2001:db8::ffff")).expect("a permit");
        assert!(quota.wait(greedy, SHORT).await.is_none() && quota.now(greedy).is_none());
        let third = quota.wait(other, SHORT).await.expect("a permit");
        drop(first);
        let again = quota.wait(greedy, SHORT).await.expect("one has come back");
        assert_eq!((quota.users(greedy), quota.users(other)), (2, 1));
        drop((second, third, again));
        assert!(quota.lock().is_empty(), "clients without permits are forgotten");
        assert_eq!(quota.total.available_permits(), 4);
    }

    #[tokio::test]
    async fn the_total_is_limited_too() {
        let quota = Quota::new(1, 2);
        let held = quota.now(ip("192.0.2.1")).expect("a permit");
        assert!(quota.wait(ip("192.0.2.2"), SHORT).await.is_none());
        drop(held);
        assert!(quota.wait(ip("192.0.2.2"), SHORT).await.is_some());
        assert!(quota.lock().is_empty());
    }
}
