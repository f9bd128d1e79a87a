//! A second user on the host, and slow or greedy clients: they cost themselves. Nobody else's
//! flows, commands and descriptors notice, and the agent ends in time.

use ccp_agent::child::AgentChild;
use ccp_agent::control::{Answer, Request, ask};
use ccp_agent::counts::Counts;
use ccp_agent::run_dir::{application_socket, author_socket, control_socket, datapath_socket};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg,
    setsockopt, socket, sockopt,
};
use remuda_client::{Preference, prefer_at};
use remuda_live::Clock;
use remuda_live::transfer::Transfer;
use remuda_tests::other_user::as_other_user;
use remuda_tests::small_disk::{fill, with_small_disk};
use remuda_tests::{Place, exclusive, skip, wait_for, wired};
use remuda_wire::to_agent::{Create, Hello, encode_ready};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The limit on descriptors under which the agent must hold out.
const NOFILE: u64 = 256;
/// The most descriptors of one message (SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;
const SHORT: Duration = Duration::from_secs(5);
/// Seconds of another user's messages, with as many seconds without them.
const TURNS: u32 = 5;

/// An agent whose socket for applications every user can reach.
fn agent(place: &Place, bpf: bool) -> (AgentChild, PathBuf) {
    let text = format!("[agent]\nbpf = {bpf}\nmodule = false\n");
    let config = place.file("remuda.toml", &text);
    let agent = place.agent(&["--arm", "cubic", "--config", config.to_str().expect("a path")]);
    let door = application_socket(&place.run_dir());
    let folder = door.parent().expect("it lies in a folder");
    fs::set_permissions(folder, Permissions::from_mode(0o711)).expect("chmod");
    (agent, door)
}

fn limit_descriptors(agent: &AgentChild, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: NOFILE.max(most) };
    let pid = agent.pid().cast_signed();
    // SAFETY: plain numbers, and a struct that outlives the call.
    let done =
        unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn descriptors(agent: &AgentChild) -> usize {
    fs::read_dir(format!("/proc/{}/fd", agent.pid())).expect("it lives").count()
}

/// Processor time of the agent so far.
fn processor(agent: &AgentChild) -> Duration {
    let text = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).expect("it lives");
    let fields = text.rsplit_once(')').expect("a name in parentheses").1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|it| it.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn counts(agent: &AgentChild) -> Counts {
    match ask(agent.run_dir(), &Request::Status {}).expect("the agent answers") {
        Answer::Status(status) => status.counts,
        other => panic!("{other:?}"),
    }
}

/// Connects to the socket for applications and sends a request with these descriptors. `None` if
/// the agent hung up before.
fn knock(door: &Path, sockets: &[RawFd]) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("a socket");
    connect(client.as_raw_fd(), &UnixAddr::new(door).expect("a path")).expect("it is open");
    let rights = [ControlMessage::ScmRights(sockets)];
    let parts = [IoSlice::new(b"prefer 0 1000")];
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(client.as_raw_fd(), &parts, &rights, flags, None).ok()?;
    Some(client)
}

/// A connection of this process to itself.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it binds");
    let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
    (here, listener.accept().expect("it is there").0)
}

/// A connection whose peer reads nothing, so that closing it takes `seconds`.
fn lingering(seconds: libc::c_int) -> (TcpStream, TcpStream) {
    let (mut here, there) = connected();
    here.set_nonblocking(true).expect("it does not block");
    while here.write_all(&[0; 65_536]).is_ok() {}
    let linger = libc::linger { l_onoff: 1, l_linger: seconds };
    setsockopt(&here, sockopt::Linger, &linger).expect("it lingers");
    (here, there)
}

/// Root sets the preference of a socket of its own, as soon as it has a place.
fn root_is_served(door: &Path) -> Duration {
    let (here, _there) = connected();
    wait_for("root's request", SHORT, || prefer_at(door, &here, Preference::DELAY).is_ok())
}

fn ends_in_time(agent: AgentChild) {
    let clock = Clock::start();
    agent.stop().expect("it ends as it should");
    assert!(clock.elapsed() < SHORT, "{:?}", clock.elapsed());
}

#[test]
fn descriptors_of_another_user_do_not_stay() {
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, door) = agent(&place, false);
    limit_descriptors(&agent, NOFILE);
    root_is_served(&door);
    let before = descriptors(&agent);
    let done = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let look = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(descriptors(&agent));
                thread::sleep(Duration::from_millis(1));
            }
            most
        });
        as_other_user(|| {
            let (here, _there) = connected();
            let many = [here.as_raw_fd(); DESCRIPTORS_MAX];
            for _ in 0..40 {
                drop((0..16).map(|_| knock(&door, &many)).collect::<Vec<_>>());
            }
        });
        done.store(true, Ordering::Relaxed);
        look.join().expect("it has looked")
    });
    println!("{before} descriptors before, {most} at most during 640 messages of 253");
    assert!(most < before + 100, "{most}");
    wait_for("closing them", SHORT, || descriptors(&agent) <= before);
    root_is_served(&door);
    ends_in_time(agent);
}

#[test]
fn sockets_that_linger_delay_nobody() {
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, door) = agent(&place, false);
    limit_descriptors(&agent, NOFILE);
    let before = descriptors(&agent);
    let (mut peers, mut clients) = (Vec::new(), Vec::new());
    // While the agent is stopped, the copies on their way to it become the last ones.
    agent.signal(Signal::SIGSTOP).expect("it stops");
    as_other_user(|| {
        for _ in 0..60 {
            let (here, there) = lingering(60);
            clients.push(knock(&door, &[here.as_raw_fd()]).expect("there is room for it"));
            peers.push(there);
        }
    });
    agent.signal(Signal::SIGCONT).expect("it goes on");
    let took = root_is_served(&door);
    println!("root is served after {took:?}");
    drop(clients);
    wait_for("closing them", SHORT, || descriptors(&agent) <= before);
    ends_in_time(agent);
}

#[test]
fn another_user_reaches_no_other_socket() {
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, _door) = agent(&place, false);
    let run_dir = place.run_dir();
    let sockets = [control_socket(&run_dir), author_socket(&run_dir), datapath_socket(&run_dir)];
    as_other_user(|| {
        for path in &sockets {
            let error = UnixStream::connect(path).expect_err("it is private");
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{}", path.display());
        }
        let error = ask(&run_dir, &Request::Status {}).expect_err("it is private").to_string();
        assert!(error.contains("only root and the agent's own user"), "{error}");
        assert!(error.contains("fix:"), "{error}");
    });
    ends_in_time(agent);
}

#[test]
fn without_descriptors_the_agent_waits_and_does_not_spin() {
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, door) = agent(&place, false);
    let before = descriptors(&agent);
    limit_descriptors(&agent, before as u64);
    let path = control_socket(&place.run_dir());
    let clients: Vec<_> = (0..20).map(|_| UnixStream::connect(&path)).collect();
    let (here, _there) = connected();
    let knocked: Vec<_> = (0..5).map(|_| knock(&door, &[here.as_raw_fd()])).collect();
    let began = processor(&agent);
    thread::sleep(Duration::from_secs(2));
    let used = processor(&agent) - began;
    println!("{used:?} of processor time in 2 s");
    assert!(used < Duration::from_millis(400), "{used:?}");
    drop((clients, knocked));
    limit_descriptors(&agent, NOFILE);
    wait_for("an answer", SHORT, || ask(agent.run_dir(), &Request::Status {}).is_ok());
    root_is_served(&door);
    let stderr = fs::read_to_string(place.run_dir().with_extension("stderr")).expect("a log");
    let warnings = stderr.matches("no client can be accepted").count();
    assert!((1..=3).contains(&warnings), "{stderr}");
    ends_in_time(agent);
}

#[test]
fn slow_control_clients_lock_nobody_out() {
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, _door) = agent(&place, false);
    let path = control_socket(&place.run_dir());
    let before = descriptors(&agent);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut slow: Vec<UnixStream> = Vec::new();
            while !done.load(Ordering::Relaxed) {
                slow.retain_mut(|client| client.write_all(b"x").is_ok());
                while slow.len() < 64 {
                    slow.push(UnixStream::connect(&path).expect("the agent listens"));
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        thread::sleep(Duration::from_millis(300));
        let clock = Clock::start();
        let answered = (0..50).filter(|_| agent.flows().is_ok()).count();
        let took = clock.elapsed();
        done.store(true, Ordering::Relaxed);
        println!("{answered} of 50 commands answered in {took:?}");
        assert!(answered >= 48 && took < SHORT, "{answered} in {took:?}");
    });
    wait_for("closing them", SHORT, || descriptors(&agent) <= before);
    ends_in_time(agent);
}

/// Sends until the agent's socket has taken the message, and reads what the agent sends.
fn send(socket: &UnixDatagram, agent: &Path, message: &[u8]) {
    while let Err(error) = socket.send_to(message, agent) {
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        let mut read = 0;
        while socket.recv(&mut [0; 4_096]).is_ok() {
            read += 1;
        }
        if read == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn a_datapath_is_held_to_the_flows_of_its_hello() {
    if skip() {
        return;
    }
    const ANNOUNCED: u32 = 300_000;
    const ALLOWED: u32 = 1_000;
    let place = Place::new();
    let (agent, _door) = agent(&place, false);
    let path = place.file("greedy", "");
    fs::remove_file(&path).expect("it makes room");
    let greedy = UnixDatagram::bind(&path).expect("it binds");
    greedy.set_nonblocking(true).expect("it does not block");
    let to = datapath_socket(&place.run_dir());
    let mut message = Vec::new();
    let hello = Hello { version: 1, flows_max: ALLOWED, name: "greedy".into(), ..Hello::default() };
    hello.encode(&mut message);
    send(&greedy, &to, &message);
    encode_ready(&mut message, 1);
    send(&greedy, &to, &message);
    let create = Create { init_cwnd_bytes: 14_480, mss_bytes: 1_448, ..Create::default() };
    let clock = Clock::start();
    for sid in 1..=ANNOUNCED {
        create.encode(&mut message, sid);
        send(&greedy, &to, &message);
    }
    let refused = || counts(&agent).flows_refused;
    wait_for("all messages", SHORT, || {
        while greedy.recv(&mut [0; 4_096]).is_ok() {}
        refused() >= u64::from(ANNOUNCED - ALLOWED)
    });
    println!("{ANNOUNCED} flows announced in {:?}, {} refused", clock.elapsed(), refused());
    assert_eq!(refused(), u64::from(ANNOUNCED - ALLOWED));
    assert_eq!(agent.flows().expect("the agent answers").len(), ALLOWED as usize);
    let events = agent.events().expect("the event log");
    let said: Vec<_> = events.iter().filter(|event| event["event"] == "flows_refused").collect();
    assert_eq!((said.len(), &said[0]["flows_max"]), (1, &ALLOWED.into()), "{said:?}");
    ends_in_time(agent);
}

#[test]
fn a_full_disk_costs_one_warning_and_the_log_says_what_is_missing() {
    if skip() {
        return;
    }
    let place = Place::new();
    with_small_disk(&place.run_dir(), || {
        let (agent, _door) = agent(&place, false);
        let path = place.file("hostile", "");
        fs::remove_file(&path).expect("it makes room");
        let hostile = UnixDatagram::bind(&path).expect("it binds");
        let to = datapath_socket(&place.run_dir());
        let filler = fill(&place.run_dir());
        let refused = || counts(&agent).refused;
        for count in 1..=3_000 {
            hostile.send_to(b"no message", &to).expect("it is sent");
            if count % 100 == 0 {
                wait_for("refusals", SHORT, || refused() >= count);
            }
        }
        let stderr = place.run_dir().with_extension("stderr");
        let warnings = || {
            let text = fs::read_to_string(&stderr).expect("a log");
            println!("{text}");
            text.matches("events are").count()
        };
        assert_eq!(warnings(), 1, "events are not recorded");
        fs::remove_file(filler).expect("room again");
        hostile.send_to(b"no message", &to).expect("it is sent");
        wait_for("the last one", SHORT, || refused() >= 3_001);
        assert_eq!(warnings(), 2, "events are recorded again");
        let events = agent.events().expect("the event log");
        let lost: u64 = events.iter().filter_map(|event| event["events"].as_u64()).sum();
        let kept = events.iter().filter(|event| event["event"] == "refused").count() as u64;
        println!("{lost} events lost, {kept} kept");
        assert_eq!(lost + kept, 3_001);
        ends_in_time(agent);
    });
}

#[test]
fn the_reports_of_others_come_as_before() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let place = Place::new();
    let (agent, door) = agent(&place, true);
    limit_descriptors(&agent, NOFILE);
    let path = wired(24.0, 5.0, 1.0);
    let algorithm = Some(place.name.clone());
    let transfer = Transfer { bytes: Some(36_000_000), algorithm, ..Transfer::default() };
    let running = transfer.start(path.server(), path.client()).expect("it starts");
    thread::sleep(Duration::from_secs(1));
    let fallbacks = || {
        let events = agent.events().expect("the event log");
        events.iter().filter(|event| event["event"] == "fell_back").count()
    };
    // Reports and fallbacks in these seconds, alone and beside the other user, turn about: what
    // else the host does then weighs on both alike.
    let (mut alone, mut beside) = ([0, 0], [0, 0]);
    let (floods, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| as_other_user(|| flood(&door, &floods, &done)));
        for turn in 0..2 * TURNS {
            let floods_now = turn % 2 == 1;
            floods.store(floods_now, Ordering::Relaxed);
            let before = [counts(&agent).reports, fallbacks() as u64];
            thread::sleep(Duration::from_secs(1));
            let after = [counts(&agent).reports, fallbacks() as u64];
            let sums = if floods_now { &mut beside } else { &mut alone };
            sums.iter_mut().zip(after.iter().zip(before)).for_each(|(sum, (a, b))| *sum += a - b);
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{alone:?} reports and fallbacks alone, {beside:?} beside another user's messages");
    assert!(beside[0] * 10 >= alone[0] * 9, "{beside:?} and {alone:?}");
    assert!(beside[1] == 0 || alone[1] > 0, "the other user makes flows fall back: {beside:?}");
    running.join().expect("every byte arrives");
    ends_in_time(agent);
}

/// Sends messages with as many descriptors as one can have, whenever `floods` says so, until
/// `done`.
fn flood(door: &Path, floods: &AtomicBool, done: &AtomicBool) {
    let (here, _there) = connected();
    let mut kept = Vec::new();
    while !done.load(Ordering::Relaxed) {
        if !floods.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        kept.extend(knock(door, &[here.as_raw_fd(); DESCRIPTORS_MAX]));
        if kept.len() > 16 {
            kept.clear();
        }
    }
}
