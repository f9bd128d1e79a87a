//! What enters the agent in a simulation of one driver: for tests that replay it.

use ccp_agent::Setup;
use remuda_algorithms::remy::{self, tree::Tree};
use remuda_scenarios::Scenario;
use remuda_sim::Simulation;
use remuda_sim::recording::Entry;
use std::sync::Arc;

/// Remy's form of a table with one rule: 0.99 windows and a segment more, a segment each 0.1 ms.
fn table() -> Vec<u8> {
    let doubles = [(257_u16, 0.99_f64), (265, 0.1)];
    let key = |key: u16| [(key & 0x7f) as u8 | 0x80, (key >> 7) as u8];
    let mut leaf = [&key(248)[..], &[2]].concat();
    for (of, value) in doubles {
        leaf.extend(key(of));
        leaf.extend(value.to_le_bytes());
    }
    [&[26, leaf.len() as u8], leaf.as_slice()].concat()
}

/// Two flows of that driver, the second a second later, over a link that loses and marks packets.
pub fn events(driver: &str, setup: &Arc<Setup>) -> Vec<Entry> {
    let text = format!(
        "duration_s = 20\nseed = 7\nsample_ms = 0\n\
         [links.down]\nrate_mbit_per_sec = 12\ndelay_ms = 20\nloss_percent = 0.2\n\
         queue = {{ kind = \"droptail\", limit_bdp = 2, ecn_threshold_packets = 20 }}\n\
         [links.up]\nrate_mbit_per_sec = 12\ndelay_ms = 20\n\
         [[flows]]\ndriver = \"{driver}\"\necn = true\n\
         [[flows]]\ndriver = \"{driver}\"\necn = true\nstart_s = 1\nbytes = 3000000\n"
    );
    let scenario = Scenario::parse(&text, "test").expect(&text);
    let mut simulation = Simulation::with_setup(&scenario, setup).expect(driver);
    let recording = simulation.record();
    simulation.run_until(simulation.end());
    recording.take()
}

/// The default, with a table for `remy`.
pub fn setup() -> Arc<Setup> {
    let setup = Setup::default();
    setup.loaded.put(remy::TABLE, Tree::parse(&table()).expect("a table"));
    Arc::new(setup)
}
