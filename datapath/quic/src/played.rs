//! A fake agent for tests, on a real socket in a private directory.

use crate::datapath::{Datapath, Settings};
use remuda_wire::program::{CWND, RATE};
use remuda_wire::to_datapath::{Update, encode_bare, encode_change_prog};
use remuda_wire::{Kind, Register, ToAgent};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A timeout that no test reaches.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// The program that the fake agent installs: it reports what each ACK acknowledged and lost.
const PROGRAM: &str = "(def (Report (volatile acked 0) (volatile lost 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (report))";
const UID: u32 = 1;

pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("chmod");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn datapath(&self, heartbeat_timeout: Duration) -> Datapath {
        let run_dir = self.path().to_owned();
        let settings = Settings { run_dir, heartbeat_timeout, ..Settings::default() };
        Datapath::start(settings).expect("it starts")
    }

    /// A fake agent that no datapath has connected to yet.
    pub fn agent(&self) -> Agent {
        let path = self.path().join("datapath.sock");
        let socket = UnixDatagram::bind(&path).expect("it binds");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        Agent { socket, path, peer: PathBuf::new(), last: Vec::new() }
    }
}

/// The fake agent. Dropping it removes its socket.
pub struct Agent {
    socket: UnixDatagram,
    path: PathBuf,
    /// The socket of the datapath that sent the last message.
    pub peer: PathBuf,
    last: Vec<u8>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Agent {
    pub fn hear(&mut self) -> Option<ToAgent> {
        let mut buffer = [0; 4_096];
        let (bytes, from) = self.socket.recv_from(&mut buffer).ok()?;
        self.peer = from.as_pathname().expect("a bound socket").to_owned();
        self.last = buffer[..bytes].to_vec();
        Some(ToAgent::parse(&self.last).expect("a datapath speaks the protocol"))
    }

    /// Waits for a message that `wanted` accepts, and drops those before it.
    pub fn wait<T>(&mut self, wanted: impl Fn(ToAgent) -> Option<T>) -> T {
        loop {
            let message = self.hear().expect("a message within five seconds");
            if let Some(found) = wanted(message) {
                return found;
            }
        }
    }

    pub fn is_greeted(&mut self) {
        self.wait(|message| matches!(message, ToAgent::Ready { .. }).then_some(()));
    }

    pub fn flow(&mut self) -> u32 {
        self.wait(|message| match message {
            ToAgent::Create { sid, .. } => Some(sid),
            _ => None,
        })
    }

    /// The fields of the last report received.
    pub fn fields(&self) -> Vec<u64> {
        let words = self.last[16..].chunks_exact(8);
        words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
    }

    pub fn say(&self, message: &[u8]) {
        self.socket.send_to(message, &self.peer).expect("the datapath takes it");
    }

    pub fn beats(&self) {
        let mut message = Vec::new();
        encode_bare(&mut message, Kind::Heartbeat);
        self.say(&message);
    }

    /// Gives the flow a program, a window and a rate, and waits until the datapath has handled
    /// these messages.
    pub fn drives(&self, datapath: &Datapath, sid: u32, cwnd_bytes: u64, rate: u64) {
        let before = datapath.counters().messages;
        self.say(&install(PROGRAM));
        let mut message = Vec::new();
        let set = |index: u32, value: u64| Update { register: Register::Implicit(index), value };
        encode_change_prog(&mut message, sid, UID, &[set(CWND, cwnd_bytes), set(RATE, rate)]);
        self.say(&message);
        until("the datapath has its orders", || datapath.counters().messages >= before + 2);
    }
}

/// Waits until another thread has done something; panics after five seconds.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_500 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("not within five seconds: {what}");
}

/// An `INSTALL` message, as portus encodes it.
fn install(text: &str) -> Vec<u8> {
    let (program, _) = portus::lang::compile(text.as_bytes(), &[]).expect("it compiles");
    let counts = [UID, program.events.len() as u32, program.instrs.len() as u32];
    let mut body: Vec<u8> = counts.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(program.serialize().expect("it serialises"));
    let length = u16::try_from(8 + body.len()).expect("it is short");
    let head = [(Kind::Install as u16).to_le_bytes(), length.to_le_bytes(), [0; 2], [0; 2]];
    [head.concat(), body].concat()
}
