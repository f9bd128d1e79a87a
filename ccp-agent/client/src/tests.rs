use super::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, accept, bind, listen, recvmsg, send};
use std::io::IoSliceMut;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

/// A fake agent that serves one client.
struct Fake {
    folder: tempfile::TempDir,
    thread: JoinHandle<(String, usize)>,
}

fn path(folder: &tempfile::TempDir) -> std::path::PathBuf {
    folder.path().join("agent.sock")
}

impl Fake {
    /// Answers with `answer`, or hangs up if that is empty.
    fn start(answer: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(path(&folder)).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        Self { folder, thread: thread::spawn(move || serve(&listener, answer)) }
    }

    fn ask(self, socket: impl AsFd, wants: Preference) -> (Result<()>, String, usize) {
        let done = prefer_at(path(&self.folder), socket, wants);
        let (heard, descriptors) = self.thread.join().unwrap();
        (done, heard, descriptors)
    }
}

fn serve(listener: &OwnedFd, answer: &str) -> (String, usize) {
    let client = accept(listener).unwrap();
    let mut request = [0; 100];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut request)];
    let got = recvmsg(&client, &mut parts, &mut rights, RecvFlags::empty()).unwrap();
    let passed = rights.drain().map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.count(),
        _ => 0,
    });
    let descriptors = passed.sum();
    if !answer.is_empty() {
        send(&client, answer.as_bytes(), SendFlags::empty()).unwrap();
    }
    (String::from_utf8_lossy(&request[..got.bytes]).into_owned(), descriptors)
}

fn any_socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn the_weights_are_sent_in_thousandths_with_the_descriptor() {
    for (wants, want) in [
        (Preference::DEFAULT, "prefer 1000 1000"),
        (Preference::DELAY, "prefer 0 1000"),
        (Preference::THROUGHPUT, "prefer 1000 0"),
        (Preference { throughput: 0.7, delay: 0.0014 }, "prefer 700 1"),
    ] {
        let (done, heard, descriptors) = Fake::start("0 12").ask(any_socket(), wants);
        done.expect("the agent takes it");
        assert_eq!((heard.as_str(), descriptors), (want, 1));
    }
}

#[test]
fn what_the_agent_answers_is_an_error_of_its_kind() {
    for (answer, kind, part) in [
        ("1 the socket is another user's", ErrorKind::PermissionDenied, "another user's"),
        ("22 a request is", ErrorKind::InvalidInput, "a request is"),
        ("", ErrorKind::WouldBlock, "too many requests"),
        ("hello", ErrorKind::InvalidData, "not one of Remuda's agent"),
        ("-1 x", ErrorKind::InvalidData, "not one of Remuda's agent"),
        ("0", ErrorKind::InvalidData, "not one of Remuda's agent"),
    ] {
        let (done, ..) = Fake::start(answer).ask(any_socket(), Preference::DELAY);
        let error = done.expect_err(answer);
        assert_eq!(error.kind(), kind, "{answer}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("agent.sock"), "{error}");
    }
}

#[test]
fn weights_out_of_range_reach_nobody() {
    for (throughput, delay) in [(0.0, 0.0), (1.1, 0.0), (-0.1, 1.0), (f64::NAN, 1.0), (4e-4, 0.0)] {
        let wants = Preference { throughput, delay };
        let error = prefer_at("/nonexistent", any_socket(), wants).expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn without_an_agent_it_says_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let error = prefer_at(path(&folder), any_socket(), Preference::DELAY).expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("agent.sock"), "{error}");
}
