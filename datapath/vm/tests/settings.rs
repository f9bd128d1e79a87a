//! What a datapath can be built with.

use remuda_vm::{Datapath, Error, Ops, Settings};
use std::time::Duration;

struct Nobody;

impl Ops for Nobody {
    fn now_ns(&self) -> u64 {
        0
    }
    fn send(&mut self, _message: &[u8]) -> bool {
        false
    }
    fn set_cwnd(&mut self, _flow: usize, _cwnd_bytes: u64) {}
    fn set_rate(&mut self, _flow: usize, _rate: u64) {}
    fn fell_back(&mut self, _flow: usize) {}
    fn restored(&mut self, _flow: usize) {}
}

#[test]
fn settings_beyond_their_bounds_are_refused() {
    let refusal = |settings: Settings| Datapath::new(&settings, Nobody).err().unwrap();
    for name in ["", "a name", "ü", "0123456789abcdef0123456789abcdef"] {
        let error = refusal(Settings { name: name.into(), ..Settings::default() });
        assert_eq!(error, Error::Name(name.into()));
    }
    let rows = [
        ("flows_max", Settings { flows_max: 0, ..Settings::default() }),
        ("flows_max", Settings { flows_max: (1 << 20) + 1, ..Settings::default() }),
        ("programs_max", Settings { programs_max: 0, ..Settings::default() }),
        ("cwnd_pkts_max", Settings { cwnd_pkts_max: 1, ..Settings::default() }),
    ];
    for (want, settings) in rows {
        let error = refusal(settings);
        assert!(matches!(error, Error::Bound { key, .. } if key == want), "{error}");
    }
    let timeout = Settings { heartbeat_timeout: Duration::MAX, ..Settings::default() };
    assert!(Datapath::new(&timeout, Nobody).is_ok());
}
