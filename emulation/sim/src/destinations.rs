//! Where flows go to: who takes the same links in the same order has the same destination, and
//! begins with what suited those before it, as flows of an agent do.
//!
//! Each path is a network of its own. As on real TCP each driver has an agent of its own, so it has
//! a memory of its own: what one learns of a path changes nothing for another. Time is simulated.
//! Unlike in the BPF datapath, nothing measures a flow before its agent's first orders.

use ccp_agent::Config;
use ccp_agent::companions::Companions;
use ccp_agent::ipc::lock;
use ccp_agent::memory::Memory;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};

/// The links of the data, and of the ACKs.
type Path = (Box<[u16]>, Box<[u16]>);

/// The destinations of one simulation.
#[derive(Debug)]
pub struct Destinations {
    nothing: Memory,
    memories: HashMap<String, Arc<Mutex<Memory>>>,
    companions: Arc<Mutex<Companions>>,
    paths: Vec<Path>,
    flows: u32,
}

/// The one of a flow.
#[derive(Clone, Debug)]
pub struct Destination {
    /// What stands for it.
    pub address: IpAddr,
    /// The number of the flow.
    pub flow: u32,
    memory: Arc<Mutex<Memory>>,
    companions: Arc<Mutex<Companions>>,
}

impl Destinations {
    /// None yet, and nothing remembered.
    pub fn new(config: &Config) -> Self {
        let (nothing, memories) = (Memory::new(&config.memory), HashMap::new());
        Self { nothing, memories, companions: Arc::default(), paths: Vec::new(), flows: 0 }
    }

    /// That of a flow of that driver over these links.
    pub fn of(&mut self, path: &Path, driver: &str) -> Destination {
        let known = self.paths.iter().position(|it| it == path);
        let index = known.unwrap_or_else(|| {
            self.paths.push(path.clone());
            self.paths.len() - 1
        });
        // 10.0.0.0/8 has 65536 networks of 24 bits; a scenario has fewer paths.
        let [.., high, low] = index.to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(10, high, low, 1));
        self.flows += 1;
        let begun = || Arc::new(Mutex::new(self.nothing.clone()));
        let memory = self.memories.entry(driver.to_owned()).or_insert_with(begun);
        Destination {
            address,
            flow: self.flows,
            memory: Arc::clone(memory),
            companions: Arc::clone(&self.companions),
        }
    }
}

impl Destination {
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    pub fn companions(&self) -> MutexGuard<'_, Companions> {
        lock(&self.companions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_links_in_the_same_order_are_the_same_destination() {
        let mut destinations = Destinations::new(&Config::default());
        let path = |data: &[u16], back: &[u16]| -> Path { (data.into(), back.into()) };
        let paths = [
            path(&[0, 1], &[2]),
            path(&[1, 0], &[2]),
            path(&[0, 1], &[2]),
            path(&[0, 1], &[]),
            path(&[0], &[2]),
        ];
        let addresses = paths.map(|path| destinations.of(&path, "bbr").address.to_string());
        assert_eq!(addresses, ["10.0.0.1", "10.0.1.1", "10.0.0.1", "10.0.2.1", "10.0.3.1"]);
    }
}
