//! The server that a scraper asks. Any local user can reach an address of loopback, so clients have
//! few places and little time, and what they send is bounded.

use super::gather::Snapshot;
use super::text::{MEDIA_TYPE, text};
use crate::Error;
use crate::client::{self, Deadline, send_all};
use crate::clock;
use crate::error::on;
use crate::lock::lock;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The time that a client has for its request, and again to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Clients that are served at once.
const CLIENTS_MAX: usize = 8;
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// The same snapshot is shown for this long, so that clients cost the agent one a second at most.
const SNAPSHOT_LIFE_US: u64 = 1_000_000;

/// Serves scrapers until the process ends. Returns the address that is bound.
pub fn serve(
    address: SocketAddr,
    snapshot: impl Fn() -> Snapshot + Send + Sync + 'static,
) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(address).map_err(on(format!("agent.metrics = {address}")))?;
    let bound = listener.local_addr().map_err(on(format!("agent.metrics = {address}")))?;
    let texts = Arc::new(Texts { snapshot: Box::new(snapshot), last: Mutex::new(None) });
    let places = Arc::new(Places::default());
    let listener = OwnedFd::from(listener);
    let admit = move |socket: OwnedFd| {
        let Some(place) = Places::take(&places, &socket) else { return Err(socket) };
        let texts = Arc::clone(&texts);
        client::serve("metrics client", socket, place, move |socket, _place| {
            if let Err(error) = converse(socket, &texts) {
                tracing::debug!(%error, "a client of the metrics");
            }
        })
    };
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || client::accept_all(&listener, "the metrics", admit))
        .map_err(on("the metrics thread"))?;
    Ok(bound)
}

/// The text of the metrics, made at most once a second.
struct Texts {
    snapshot: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// The last text, and when it was made, by the monotonic clock.
    last: Mutex<Option<(u64, Arc<str>)>>,
}

impl Texts {
    fn get(&self) -> io::Result<Arc<str>> {
        let mut last = lock(&self.last);
        let now_us = clock::monotonic_us();
        if let Some((at_us, text)) = &*last
            && now_us.saturating_sub(*at_us) < SNAPSHOT_LIFE_US
        {
            return Ok(Arc::clone(text));
        }
        let made: Arc<str> = text((self.snapshot)()).map_err(io::Error::other)?.into();
        *last = Some((now_us, Arc::clone(&made)));
        Ok(made)
    }
}

/// The clients that are served, the one that came first before the others.
#[derive(Default)]
struct Places {
    clients: Mutex<VecDeque<(u64, OwnedFd)>>,
    next: AtomicU64,
}

/// The place of one client. It is free again when this is dropped.
struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Gives a client a place. If all places are taken, the agent hangs up on the client that it
    /// has served for longest. `None` if the agent has no descriptor left for a copy of the socket.
    fn take(places: &Arc<Self>, client: &OwnedFd) -> Option<Place> {
        let copy = client.try_clone().ok()?;
        let number = places.next.fetch_add(1, Ordering::Relaxed);
        let mut clients = lock(&places.clients);
        if clients.len() >= CLIENTS_MAX
            && let Some((_, longest)) = clients.pop_front()
        {
            let _ = shutdown(longest.as_raw_fd(), Shutdown::Both); // its thread ends
            client::close(longest);
        }
        clients.push_back((number, copy));
        Some(Place { places: Arc::clone(places), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = lock(&self.places.clients);
        let place = clients.iter().position(|(number, _)| *number == self.number);
        let socket = place.and_then(|at| clients.remove(at));
        drop(clients);
        client::close(socket);
    }
}

fn converse(client: &OwnedFd, texts: &Texts) -> io::Result<()> {
    let (status, kind, body) = match request(client)? {
        Asked::Metrics => ("200 OK", MEDIA_TYPE, texts.get()?),
        Asked::Other(status) => {
            (status, "text/plain; charset=utf-8", "metrics are at GET /metrics\n".into())
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         \r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    send_all(client, &answer, Deadline::after(CLIENT_TIMEOUT))
}

/// What a client asks for.
enum Asked {
    Metrics,
    /// Something else: the status of the answer.
    Other(&'static str),
}

fn request(client: &OwnedFd) -> io::Result<Asked> {
    let deadline = Deadline::after(CLIENT_TIMEOUT);
    let mut read = Vec::new();
    let mut room = [0; 1_024];
    loop {
        deadline.wait(client, PollFlags::POLLIN)?;
        let bytes = recv(client.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(&room[..bytes]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(&read) {
            Ok(httparse::Status::Complete(_)) => {
                let path = parsed.path.map(|path| path.split('?').next().unwrap_or(path));
                return Ok(match (parsed.method, path) {
                    (Some("GET"), Some("/metrics")) => Asked::Metrics,
                    (Some("GET"), _) => Asked::Other("404 Not Found"),
                    _ => Asked::Other("405 Method Not Allowed"),
                });
            }
            Ok(httparse::Status::Partial) if read.len() < REQUEST_BYTES_MAX => {}
            Ok(httparse::Status::Partial) => {
                return Ok(Asked::Other("431 Request Header Fields Too Large"));
            }
            Err(_) => return Ok(Asked::Other("400 Bad Request")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn server() -> SocketAddr {
        let address = ([127, 0, 0, 1], 0).into();
        serve(address, || {
            let mut snapshot = Snapshot::default();
            snapshot.flow("cubic", false, None);
            snapshot
        })
        .expect("it serves")
    }

    fn asked(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).expect("it connects");
        client.write_all(request).expect("it is sent");
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn a_scrape_gets_the_metrics_and_anything_else_a_status() {
        let address = server();
        let answer = asked(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("remuda_flows{arm=\"cubic\"} 1.0\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        let long = [&b"GET /metrics HTTP/1.1\r\nA: "[..], &[b'a'; 9_000]].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (&long, "431"),
        ] {
            let answer = asked(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
    }

    #[test]
    fn silent_clients_that_come_again_keep_no_scraper_out() {
        let address = server();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let silent = thread::spawn(move || {
            let mut held = VecDeque::new();
            while !stopped.load(Ordering::Relaxed) {
                held.push_back(TcpStream::connect(address));
                if held.len() > 2 * CLIENTS_MAX {
                    held.pop_front();
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let served = (0..20).filter(|_| {
            let answer = asked(address, b"GET /metrics HTTP/1.1\r\n\r\n");
            thread::sleep(Duration::from_millis(20));
            answer.contains("200 OK")
        });
        let served = served.count();
        stop.store(true, Ordering::Relaxed);
        silent.join().expect("it ends");
        assert!(served >= 15, "{served} of 20 scrapes");
    }

    #[test]
    fn one_snapshot_serves_all_who_ask_within_a_second() {
        let made = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&made);
        let address = serve(([127, 0, 0, 1], 0).into(), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Snapshot::default()
        })
        .expect("it serves");
        let began_us = clock::monotonic_us();
        for _ in 0..20 {
            assert!(asked(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
        }
        let seconds = (clock::monotonic_us() - began_us) / 1_000_000;
        assert!(made.load(Ordering::Relaxed) <= 1 + seconds);
    }
}
