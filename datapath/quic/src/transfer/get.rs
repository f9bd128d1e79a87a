//! The client of a file transfer.

use crate::Clock;
use crate::transfer::serve::Digits;
use crate::transfer::tls::SERVER_NAME;
use crate::transfer::{
    CHUNK_BYTES, Error, Fingerprint, Refusal, Target, on, runtime, socket, start, stopped, tls,
    transport,
};
use noq::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, ReadError, RecvStream, TokioRuntime,
    VarInt,
};
use sha2::{Digest, Sha256};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// A file to fetch.
#[derive(Clone, Debug)]
pub struct Get {
    pub target: Target,
    pub pin: Fingerprint,
    /// The output file; `None` discards the data, for measurements.
    pub output: Option<PathBuf>,
    /// The number of simultaneous connections; only the data of the first is written.
    pub connections: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Length of the file.
    pub bytes: u64,
    /// SHA-256 of the file in hexadecimal digits; all connections must agree.
    pub sha256: String,
    /// From the start of the first connection to the end of the last.
    pub elapsed: Duration,
}

impl Get {
    /// Fetches the file. Meanwhile `received` counts the bytes over all connections. A failed
    /// transfer leaves no file.
    pub fn run(&self, received: &Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Result<Fetched, Error> {
        let remote = self.target.resolve()?;
        runtime()?.block_on(async {
            tokio::select! {
                fetched = self.fetch_all(remote, received) => fetched,
                () = stopped(stop) => Err(Error::Stopped),
            }
        })
    }

    async fn fetch_all(
        &self,
        remote: SocketAddr,
        received: &Arc<AtomicU64>,
    ) -> Result<Fetched, Error> {
        let began = Clock::start();
        let mut config = ClientConfig::new(tls::client(self.pin)?);
        config.transport_config(Arc::new(transport()));
        let mut running = tokio::task::JoinSet::new();
        for n in 0..self.connections.max(1) {
            let part = self.output.as_deref().filter(|_| n == 0).map(Partial::of);
            let one = One {
                target: self.target.clone(),
                remote,
                config: config.clone(),
                received: Arc::clone(received),
                part,
            };
            running.spawn(one.fetch());
        }
        let mut all: Vec<(u64, String)> = Vec::new();
        let mut part = None;
        while let Some(ended) = running.join_next().await {
            let (received, kept) = ended.map_err(start)??;
            all.push(received);
            part = part.or(kept);
        }
        let first = all.pop().expect("there is at least one connection");
        if all.iter().any(|other| *other != first) {
            return Err(Error::Differs(self.target.to_string()));
        }
        part.map_or(Ok(()), Partial::keep)?;
        Ok(Fetched { bytes: first.0, sha256: first.1, elapsed: began.elapsed() })
    }
}

/// The output file until it is complete. Dropping it deletes the file, but only if this process has
/// created it.
struct Partial {
    path: PathBuf,
    part: PathBuf,
    is_ours: bool,
}

impl Partial {
    fn of(path: &Path) -> Self {
        let mut part = path.to_owned().into_os_string();
        part.push(".part");
        Self { path: path.to_owned(), part: part.into(), is_ours: false }
    }

    async fn open(&mut self) -> Result<tokio::fs::File, Error> {
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).open(&self.part).await;
        let file = file.map_err(on(&self.part))?;
        self.is_ours = true;
        Ok(file)
    }

    fn keep(mut self) -> Result<(), Error> {
        std::fs::rename(&self.part, &self.path).map_err(on(&self.path))?;
        self.is_ours = false;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

struct One {
    target: Target,
    remote: SocketAddr,
    config: ClientConfig,
    received: Arc<AtomicU64>,
    part: Option<Partial>,
}

/// Byte count and SHA-256 in hexadecimal digits; and the output file, if this connection writes it.
type Received = ((u64, String), Option<Partial>);

impl One {
    async fn fetch(mut self) -> Result<Received, Error> {
        let any: SocketAddr = match self.remote {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket(any)?, runtime)
            .map_err(|source| Error::Socket { address: any, source })?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.remote, SERVER_NAME)
            .map_err(|error| self.lost(error.to_string()))?;
        let connection = connecting.await.map_err(|error| self.lost(explain(&error)))?;
        let lost = |error: ConnectionError| self.lost(explain(&error));
        let (mut send, receive) = connection.open_bi().await.map_err(lost)?;
        let request = format!("GET {}\r\n", self.target.path);
        // A failed write shows as an error when the answer is read.
        let _ = send.write_all(request.as_bytes()).await;
        let _ = send.finish();
        let fetched = self.receive(receive).await?;
        connection.close(VarInt::from_u32(0), b"done");
        endpoint.wait_all_draining().await;
        Ok(fetched)
    }

    async fn receive(&mut self, mut receive: RecvStream) -> Result<Received, Error> {
        let mut part = self.part.take();
        let mut file = match &mut part {
            Some(part) => Some(part.open().await?),
            None => None,
        };
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        loop {
            let chunk =
                receive.read_chunk(CHUNK_BYTES).await.map_err(|error| self.broken(error))?;
            let Some(chunk) = chunk else { break };
            hash.update(&chunk);
            bytes += chunk.len() as u64;
            self.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            if let (Some(file), Some(part)) = (&mut file, &part) {
                file.write_all(&chunk).await.map_err(on(&part.part))?;
            }
        }
        if let (Some(file), Some(part)) = (&mut file, &part) {
            file.flush().await.map_err(on(&part.part))?;
        }
        Ok(((bytes, Digits(&hash.finalize()).to_string()), part))
    }

    fn broken(&self, error: ReadError) -> Error {
        match error {
            ReadError::Reset(code) => {
                let why = Refusal::of(code.into_inner());
                Error::Refused { address: self.target.to_string(), why }
            }
            ReadError::ConnectionLost(error) => self.lost(explain(&error)),
            other => self.lost(other.to_string()),
        }
    }

    fn lost(&self, why: String) -> Error {
        Error::Connection { address: self.target.authority.clone(), why }
    }
}

fn explain(error: &ConnectionError) -> String {
    match error {
        ConnectionError::TimedOut => {
            "no answer\nfix: check that the server runs, the port, and that UDP is allowed"
                .to_owned()
        }
        ConnectionError::ApplicationClosed(_) => "the server has closed the connection".to_owned(),
        // RFC 9001 section 4.8: the error is 0x100 plus the TLS alert; 0x128 is handshake_failure.
        // For a refused certificate rustls sends access_denied or bad_certificate.
        ConnectionError::TransportError(error) if error.to_string().contains("certificate") => {
            format!("{error}\nfix: give --pin the fingerprint that this server has printed")
        }
        other => other.to_string(),
    }
}
