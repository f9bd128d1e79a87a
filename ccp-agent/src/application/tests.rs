use super::*;
use crate::Config;
use crate::events::{Event, Recorder};
use crate::run_dir;
use nix::sys::socket::{ControlMessage, connect, recv, sendmsg};
use std::io::{IoSlice, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

struct Nobody;

impl Recorder for Nobody {
    fn record(&mut self, _flow: Option<u32>, _event: &Event) {}
}

struct Rig {
    folder: tempfile::TempDir,
    _listener: SocketFile,
}

fn opened(folder: &Path) -> Result<SocketFile, Error> {
    let run_dir = folder.join("run");
    fs::create_dir_all(&run_dir).expect("a folder");
    let host = Host::new(Config::default(), Box::new(Nobody));
    serve(run_dir::application_socket(&run_dir), Arc::new(Mutex::new(host)), None)
}

fn rig() -> Rig {
    let folder = tempfile::tempdir().expect("a folder");
    Rig { _listener: opened(folder.path()).expect("it opens"), folder }
}

fn failed(errno: Errno) -> std::io::Error {
    errno.into()
}

impl Rig {
    fn knock(&self) -> OwnedFd {
        let path = run_dir::application_socket(&self.folder.path().join("run"));
        let fd =
            make_socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
                .expect("a socket");
        let address = UnixAddr::new(&path).expect("an address");
        connect(fd.as_raw_fd(), &address).expect("it connects");
        fd
    }

    /// The answer to a request; empty if the agent hung up.
    fn ask(&self, request: &[u8], sockets: &[RawFd]) -> String {
        let client = self.knock();
        let rights = [ControlMessage::ScmRights(sockets)];
        let rights = if sockets.is_empty() { &[][..] } else { &rights[..] };
        let sent = sendmsg::<()>(
            client.as_raw_fd(),
            &[IoSlice::new(request)],
            rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        let heard = sent.map_err(failed).and_then(|_| hear(&client));
        heard.unwrap_or_default()
    }
}

fn hear(client: &OwnedFd) -> std::io::Result<String> {
    let mut answer = [0; 1_024];
    let bytes = recv(client.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(failed)?;
    Ok(String::from_utf8_lossy(&answer[..bytes]).into_owned())
}

/// Both ends of a TCP connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it binds");
    let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
    (here, listener.accept().expect("it is there").0)
}

#[test]
fn a_wish_is_taken_and_the_descriptor_is_closed() {
    let rig = rig();
    let (here, mut there) = connected();
    assert_eq!(rig.ask(b"prefer 0 1000", &[here.as_raw_fd()]), "0 0");
    drop(here);
    assert_eq!(there.read(&mut [0; 1]).expect("its end"), 0, "nobody else has it open");
}

#[test]
fn what_makes_no_sense_is_refused_and_all_descriptors_are_closed() {
    let rig = rig();
    let (here, mut there) = connected();
    let fd = here.as_raw_fd();
    let (one, mut other) = UnixStream::pair().expect("a pair");
    for (request, sockets, part) in [
        (&b"prefer 0 1000"[..], &[][..], "22 a request must pass exactly one socket"),
        (b"prefer 0 1000", &[fd, fd], "22 a request must pass exactly one socket"),
        (b"prefer 0 1000", &[fd; 200], "22 a request must pass exactly one socket"),
        (b"prefer 0 1000", &[one.as_raw_fd()], "93 the socket is not TCP"),
        (b"prefer 0 0", &[fd], "22 a request is"),
        (b"flows", &[fd], "22 a request is"),
        (b"\xff\xfe", &[fd], "22 a request is"),
        (&[b'x'; 65], &[fd], "90 a request has at most 64 bytes"),
        (&[b'x'; 60_000], &[], "90 a request has at most 64 bytes"),
    ] {
        let answer = rig.ask(request, sockets);
        assert!(answer.starts_with(part), "{answer:?} is not {part:?}");
    }
    drop((here, one));
    assert_eq!(there.read(&mut [0; 1]).expect("its end"), 0);
    assert_eq!(other.read(&mut [0; 1]).expect("its end"), 0);
}

#[test]
fn who_says_nothing_is_hung_up_on_and_keeps_nobody_out_for_long() {
    let rig = rig();
    let (here, _there) = connected();
    let silent: Vec<_> = (0..7).map(|_| rig.knock()).collect();
    assert_eq!(rig.ask(b"prefer 0 1000", &[here.as_raw_fd()]), "0 0", "one place is left");
    assert!(hear(&silent[0]).expect("a last word").starts_with("110 no request"));
    drop(silent);
}

#[test]
fn who_asks_without_end_is_turned_away_and_let_in_again() {
    let rig = rig();
    let (here, _there) = connected();
    let asked = (0..2_000).map(|_| rig.ask(b"prefer 0 1000", &[here.as_raw_fd()]));
    let turned_away = asked.filter(|answer| answer != "0 0").count();
    thread::sleep(Duration::from_secs(1));
    println!("{turned_away} of 2000 are turned away");
    assert_eq!(rig.ask(b"prefer 0 1000", &[here.as_raw_fd()]), "0 0");
}

#[test]
fn a_folder_in_which_others_can_replace_it_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let error = opened(folder.path()).expect_err("it is refused").to_string();
    assert!(error.contains("fix:"), "{error}");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("chmod");
    let listener = opened(folder.path()).expect("as /tmp is");
    let path = listener.0.clone();
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o666, "for any user");
    drop(listener);
    assert!(!path.exists());
}
