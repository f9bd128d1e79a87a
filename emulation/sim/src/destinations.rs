//! The destinations of flows. Flows over the same links in the same order have the same
//! destination, and a new flow begins with what its agent remembers of it.
//!
//! Each path has an address of its own. As on real TCP, each driver has its own agent: here, its
//! own flow engine. So what one driver learns of a path does not affect another. Time is simulated.
//! Unlike in the BPF datapath, a flow is not measured before its agent's first orders.

use ccp_agent::Setup;
use ccp_agent::flows::Flows;
use ccp_agent::lock::lock;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};

/// The links of the data, and those of the ACKs.
type Path = (Box<[u16]>, Box<[u16]>);

#[derive(Debug)]
pub struct Destinations {
    setup: Arc<Setup>,
    engines: HashMap<String, Arc<Mutex<Flows>>>,
    paths: Vec<Path>,
    flows: u32,
}

/// The destination of one flow.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The address that stands for the path.
    pub address: IpAddr,
    pub flow: u32,
    engine: Arc<Mutex<Flows>>,
}

impl Destinations {
    /// Starts without destinations and without memory.
    pub fn new(setup: &Arc<Setup>) -> Self {
        let setup = Arc::clone(setup);
        Self { setup, engines: HashMap::new(), paths: Vec::new(), flows: 0 }
    }

    /// The destination of a new flow with this driver over these links.
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
        let begun = || Arc::new(Mutex::new(Flows::new(&self.setup.config)));
        let engine = self.engines.entry(driver.to_owned()).or_insert_with(begun);
        Destination { address, flow: self.flows, engine: Arc::clone(engine) }
    }
}

impl Destination {
    /// The flow engine of the driver.
    pub fn engine(&self) -> MutexGuard<'_, Flows> {
        lock(&self.engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_links_in_the_same_order_are_the_same_destination() {
        let mut destinations = Destinations::new(&Arc::default());
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
