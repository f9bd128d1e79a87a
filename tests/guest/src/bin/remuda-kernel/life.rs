//! Loading and unloading the module.

use crate::device;
use crate::module::{self, counter};
use nix::errno::Errno;
use remuda_live::transfer::{Transfer, set_algorithm};
use remuda_tests::wired;
use remuda_wire::{ToAgent, capability};
use std::fs;
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Sockets of a scenario that has ended exist for a while: on a slow machine, more than 20 s.
const TURNS: u32 = 600;
const TURN: Duration = Duration::from_millis(100);

/// Unloads the module as soon as no socket uses it.
pub fn unload_soon() {
    for _ in 0..TURNS {
        match module::unload() {
            Ok(()) => return,
            Err(Errno::EAGAIN | Errno::EBUSY) => thread::sleep(TURN),
            Err(errno) => panic!("unloading: {errno}"),
        }
    }
    panic!("still used after {:?}: {:?}", TURN * TURNS, module::counters());
}

/// Parameters outside their bounds are refused, and nothing stays loaded.
pub fn parameters() {
    for bad in ["flows=0", "flows=2000000", "programs=3", "records_kib=1", "cwnd_pkts_max=1"] {
        assert_eq!(module::load(bad), Err(Errno::EINVAL), "{bad}");
        assert!(!module::is_loaded(), "{bad}");
    }
    module::load("flows=64 programs=64 heartbeat_timeout_ms=1000").expect("within bounds");
    assert_eq!((counter("flows_max"), counter("programs_max")), (64, 64));
    let greeting = device::Agent::open().read();
    let Some(Ok(ToAgent::Hello(hello))) = greeting.first().map(|first| ToAgent::parse(first))
    else {
        panic!("it greets its agent first: {greeting:?}");
    };
    assert_eq!((hello.flows_max, hello.programs_max), (64, 64));
    let bits = capability::SIGNALS | capability::CCP;
    assert_eq!(hello.capabilities, bits, "as docs/wire-protocol.md");
    unload_soon();
    assert!(!module::is_loaded());
}

/// Unloading is refused while a flow, an agent or a namespace's default uses the module; afterwards
/// it works, and can be repeated.
pub fn unload() {
    for _ in 0..2 {
        module::load("").expect("it loads");
        let agent = OpenOptions::new().read(true).write(true).open(device::PATH).expect("a device");
        assert_eq!(module::unload(), Err(Errno::EAGAIN), "an agent has the device open");
        let second =
            OpenOptions::new().read(true).open(device::PATH).expect_err("one agent at a time");
        assert_eq!(second.raw_os_error(), Some(Errno::EBUSY as i32));
        drop(agent);

        let before = fs::read_to_string(DEFAULT).expect("there is a default");
        fs::write(DEFAULT, "ccp").expect("it is set");
        assert_eq!(module::unload(), Err(Errno::EAGAIN), "it is the default");
        fs::write(DEFAULT, before.trim()).expect("it is set back");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        set_algorithm(listener.as_raw_fd(), "ccp").expect("it is known");
        assert_eq!(module::unload(), Err(Errno::EAGAIN), "a listener has it");
        drop(listener);

        let path = wired(24.0, 5.0, 1.0);
        let transfer = Transfer { algorithm: Some("ccp".to_owned()), ..Transfer::default() };
        let running = transfer.start(path.server(), path.client()).expect("it starts");
        thread::sleep(Duration::from_millis(500));
        assert_eq!(module::unload(), Err(Errno::EAGAIN), "a flow has it");
        assert_eq!(counter("flows"), 1);
        running.stop();
        let outcome = running.join().expect("it ends intact, without any agent");
        assert!(outcome.bytes > 0);
        unload_soon();
        assert!(!module::is_loaded() && fs::metadata(device::PATH).is_err());
    }
}
