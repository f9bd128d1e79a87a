//! A real server on loopback, and clients that do what clients should not.

use super::*;
use noq::{ClientConfig, Connection, ReadToEndError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

const SHORT: Waits = Waits {
    permit: Duration::from_millis(300),
    stall: Duration::from_secs(3),
    end: Duration::from_secs(3),
};

/// A server in a thread; it ends when this value is dropped.
struct Running {
    address: SocketAddr,
    pin: Fingerprint,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    fn start(folder: &Path) -> Self {
        let settings = Serve {
            folder: folder.to_owned(),
            listen: "0.0.0.0:0".parse().expect("an address"),
            controller: Controller::Cubic,
            run_dir: folder.to_owned(),
            user: None,
        };
        let server = Server::bind_with(&settings, SHORT, Box::new(|_| ())).expect("it starts");
        let address = SocketAddr::new("127.0.0.1".parse().expect("IP"), server.address().port());
        let (pin, stop) = (server.fingerprint(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || server.run(stopped)));
        Self { address, pin, stop, thread }
    }

    /// A connection from the address `from`, with a window of so many bytes a stream.
    async fn connect(&self, from: &str, window: u32) -> Connection {
        let mut transport = transport();
        transport.stream_receive_window(window.into());
        let mut config = ClientConfig::new(tls::client(self.pin).expect("a configuration"));
        config.transport_config(Arc::new(transport));
        let bound = socket(SocketAddr::new(from.parse().expect("IP"), 0)).expect("a socket");
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, bound, runtime);
        let endpoint = endpoint.expect("an endpoint");
        let connecting = endpoint.connect_with(config, self.address, tls::SERVER_NAME);
        connecting.expect("an attempt").await.expect("a connection")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Sends a request without reading the answer.
async fn request(connection: &Connection, name: &str) -> (SendStream, RecvStream) {
    let (mut send, receive) = connection.open_bi().await.expect("a stream");
    send.write_all(format!("GET /{name}\r\n").as_bytes()).await.expect("it is sent");
    send.finish().expect("it is open");
    (send, receive)
}

/// The content, or the number with which the server reset the stream.
async fn read(mut receive: RecvStream) -> Result<Vec<u8>, u64> {
    match receive.read_to_end(64 << 20).await {
        Ok(content) => Ok(content),
        Err(ReadToEndError::Read(noq::ReadError::Reset(code))) => Err(code.into_inner()),
        Err(error) => panic!("{error}"),
    }
}

async fn fetch(connection: &Connection, name: &str) -> Result<Vec<u8>, u64> {
    let (_send, receive) = request(connection, name).await;
    read(receive).await
}

/// A thread exchanges a folder and a link to a folder outside, as fast as it can.
#[test]
fn a_folder_that_becomes_a_link_while_it_is_read_leads_nowhere() {
    let outer = tempfile::tempdir().expect("a folder");
    let served = outer.path().join("served");
    for (folder, content) in [("served/inner", "inside"), ("outside", "secret")] {
        fs::create_dir_all(outer.path().join(folder)).expect("folders");
        fs::write(outer.path().join(folder).join("file"), content).expect("a file");
    }
    symlink("../outside", served.join("link")).expect("a link");
    let server = Running::start(&served);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let swapper = thread::spawn(move || {
        let (inner, link) = (served.join("inner"), served.join("link"));
        while !stopped.load(Ordering::Relaxed) {
            renameat_with(CWD, &inner, CWD, &link, RenameFlags::EXCHANGE).expect("an exchange");
        }
    });
    let (mut inside, mut refused) = (0, 0);
    runtime().expect("a runtime").block_on(async {
        let connection = server.connect("127.0.0.1", 100_000).await;
        let clock = Clock::start();
        while clock.elapsed() < Duration::from_secs(2) {
            for name in ["inner/file", "link/file"] {
                match fetch(&connection, name).await {
                    Ok(content) => {
                        assert_eq!(content, b"inside", "a file from outside of the folder");
                        inside += 1;
                    }
                    Err(code) => {
                        assert!([2, 3].contains(&code), "{code}");
                        refused += 1;
                    }
                }
            }
        }
    });
    stop.store(true, Ordering::Relaxed);
    swapper.join().expect("it ends");
    println!("{inside} answers from inside, {refused} refused");
    assert!(inside > 20 && refused > 20, "{inside} from inside, {refused} refused: no race");
}

/// A client with all of its places that reads nothing: others are served, its own further requests
/// are refused in time, and it loses its places.
#[test]
fn a_client_that_reads_nothing_harms_only_itself_and_not_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("big"), vec![7; 1_000_000]).expect("a file");
    fs::write(folder.path().join("small"), "small").expect("a file");
    let server = Running::start(folder.path());
    runtime().expect("a runtime").block_on(async {
        let greedy = server.connect("127.0.0.2", 10_000).await;
        let mut held = Vec::new();
        for _ in 0..FILES_OF_CLIENT_MAX {
            held.push(request(&greedy, "big").await);
        }
        let again = server.connect("127.0.0.2", 10_000).await;
        let clock = Clock::start();
        while fetch(&again, "small").await != Err(Refusal::Busy as u64) {
            assert!(clock.elapsed() < SHORT.stall, "one client has more than its places");
        }
        let clock = Clock::start();
        assert_eq!(fetch(&again, "small").await, Err(Refusal::Busy as u64));
        assert!(clock.elapsed() >= SHORT.permit && clock.elapsed() < SHORT.stall);
        let other = server.connect("127.0.0.1", 100_000).await;
        assert_eq!(fetch(&other, "big").await.map(|content| content.len()), Ok(1_000_000));
        let clock = Clock::start();
        while fetch(&again, "small").await != Ok(b"small".to_vec()) {
            assert!(clock.elapsed() < SHORT.stall * 3, "the places are held for ever");
        }
        // The first of its files is given up a moment before the last.
        tokio::time::sleep(SHORT.stall).await;
        let (_send, receive) = held.pop().expect("it asked");
        let length = read(receive).await.map(|content| content.len());
        assert_eq!(length, Err(Refusal::Stalled as u64));
    });
}

#[test]
fn a_request_that_does_not_end_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(folder.path());
    runtime().expect("a runtime").block_on(async {
        let connection = server.connect("127.0.0.1", 10_000).await;
        let (mut send, receive) = connection.open_bi().await.expect("a stream");
        send.write_all(b"GET /").await.expect("it is sent");
        let clock = Clock::start();
        assert_eq!(read(receive).await, Err(Refusal::Request as u64));
        assert!(clock.elapsed() < SHORT.stall * 2);
    });
}
