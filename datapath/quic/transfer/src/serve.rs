//! The server.

use crate::contain::{REQUEST_BYTES_MAX, file_of};
use crate::{
    CHUNK_BYTES, Error, Fingerprint, Refusal, on, runtime, socket, start, stopped, tls, transport,
    with_causes,
};
use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::{
    Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt,
};
use remuda_quic::{Clock, Datapath, Factory, Settings};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

/// Connections at once; further ones are refused.
const CONNECTIONS_MAX: usize = 4_096;
/// With so many, further ones have to show first that their address is theirs (RFC 9000 section
/// 8.1.2).
const CONNECTIONS_UNPROVEN_MAX: usize = CONNECTIONS_MAX / 8;
/// Files at once, of each connection.
const STREAMS_MAX: u32 = 64;
/// Files at once, of all connections; who comes later waits. A file is a descriptor.
const FILES_MAX: usize = 768;
/// A client that takes none of a file for so long has lost it.
const STALL_MAX: Duration = Duration::from_secs(30);

/// What decides how fast the server sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    #[default]
    Agent,
    Cubic,
    NewReno,
    /// noq's own BBR, version 3.
    Bbr,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Serve {
    pub folder: PathBuf,
    /// Where; port 0: any.
    pub listen: SocketAddr,
    pub controller: Controller,
    /// The agent's run directory.
    pub run_dir: PathBuf,
}

/// A file that was sent, or not.
#[derive(Clone, Debug)]
pub struct Served {
    pub remote: SocketAddr,
    /// Its path in the folder, or what was asked for.
    pub file: String,
    /// Until all of it was acknowledged.
    pub elapsed: Duration,
    /// How much, and its SHA-256 in digits; or why not.
    pub sent: Result<(u64, String), String>,
}

/// A server that is bound and not running yet.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    runtime: tokio::runtime::Runtime,
    context: Arc<Context>,
    fingerprint: Fingerprint,
}

struct Context {
    folder: PathBuf,
    files: Semaphore,
    controller: Controller,
    datapath: Option<Datapath>,
    crypto: Arc<dyn noq::crypto::ServerConfig>,
    local: SocketAddr,
    told: Box<dyn Fn(Served) + Send + Sync>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Server {
    /// Makes its certificate, finds the agent if there is one, and binds; `told` hears of files.
    pub fn bind(
        settings: &Serve,
        told: impl Fn(Served) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let folder = settings.folder.canonicalize().map_err(on(&settings.folder))?;
        if !folder.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(on(&settings.folder)(error));
        }
        let name = "quic-serve".to_owned();
        let run_dir = settings.run_dir.clone();
        let datapath = match settings.controller {
            Controller::Agent => {
                let settings = Settings { name, run_dir, ..Settings::default() };
                Some(Datapath::start(settings).map_err(start)?)
            }
            _ => None,
        };
        let (fingerprint, crypto) = tls::server()?;
        let runtime = runtime()?;
        let inside = runtime.enter();
        let config = ServerConfig::with_crypto(Arc::clone(&crypto) as _);
        let address = settings.listen;
        let failed = |source| Error::Socket { address, source };
        let (bound, of) = (socket(address)?, EndpointConfig::default());
        let endpoint = Endpoint::new(of, Some(config), bound, Arc::new(TokioRuntime));
        let endpoint = endpoint.map_err(failed)?;
        let local = endpoint.local_addr().map_err(failed)?;
        let controller = settings.controller;
        let told = Box::new(told);
        let files = Semaphore::new(FILES_MAX);
        let context = Context { folder, files, controller, datapath, crypto, local, told };
        drop(inside);
        Ok(Self { endpoint, runtime, context: Arc::new(context), fingerprint })
    }

    pub fn address(&self) -> SocketAddr {
        self.context.local
    }

    /// What its clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Its datapath, if the agent decides.
    pub fn datapath(&self) -> Option<&Datapath> {
        self.context.datapath.as_ref()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: Arc<AtomicBool>) {
        let Self { endpoint, runtime, context, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                () = accept(&endpoint, &context) => {}
                () = stopped(stop) => {}
            }
            endpoint.close(VarInt::from_u32(0), b"the server ends");
            // The clients are told; who does not answer waits for its own timeout.
            let _ =
                tokio::time::timeout(Duration::from_secs(1), endpoint.wait_all_draining()).await;
        });
    }
}

async fn accept(endpoint: &Endpoint, context: &Arc<Context>) {
    while let Some(incoming) = endpoint.accept().await {
        if endpoint.open_connections() >= CONNECTIONS_MAX {
            incoming.refuse();
            continue;
        }
        let many = endpoint.open_connections() >= CONNECTIONS_UNPROVEN_MAX;
        if many && !incoming.remote_address_validated() {
            // It is refused who cannot be asked to try again.
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(converse(incoming, Arc::clone(context)));
    }
}

impl Context {
    /// noq does not tell a factory of whom its connection is, so each has one of its own.
    fn factory(
        &self,
        remote: SocketAddr,
        local: SocketAddr,
    ) -> Arc<dyn ControllerFactory + Send + Sync> {
        match (&self.datapath, self.controller) {
            (Some(datapath), _) => Arc::new(Factory::new(datapath).between(local, remote)),
            (None, Controller::NewReno) => Arc::new(NewRenoConfig::default()),
            (None, Controller::Bbr) => Arc::new(Bbr3Config::default()),
            (None, _) => Arc::new(CubicConfig::default()),
        }
    }

    fn config(&self, incoming: &Incoming) -> Arc<ServerConfig> {
        let ip = incoming.local_ip().unwrap_or(self.local.ip());
        let local = SocketAddr::new(ip, self.local.port());
        let mut transport = transport();
        transport.congestion_controller_factory(self.factory(incoming.remote_address(), local));
        transport.max_concurrent_bidi_streams(STREAMS_MAX.into());
        transport.max_concurrent_uni_streams(0u8.into());
        let mut config = ServerConfig::with_crypto(Arc::clone(&self.crypto));
        config.transport_config(Arc::new(transport));
        Arc::new(config)
    }
}

async fn converse(incoming: Incoming, context: Arc<Context>) {
    let (config, remote) = (context.config(&incoming), incoming.remote_address());
    let Ok(connecting) = incoming.accept_with(config) else { return };
    // A handshake that fails is its client's affair.
    let Ok(connection) = connecting.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            let began = Clock::start();
            let (file, sent) = answer(&context, send, receive).await;
            (context.told)(Served { remote, file, elapsed: began.elapsed(), sent });
        });
    }
}

type Sent = Result<(u64, String), String>;

async fn answer(
    context: &Context,
    mut send: SendStream,
    mut receive: RecvStream,
) -> (String, Sent) {
    let folder = &context.folder;
    let request = receive.read_to_end(REQUEST_BYTES_MAX).await.unwrap_or_default();
    let named = String::from_utf8_lossy(&request).trim_end().escape_debug().to_string();
    let file = match file_of(&request, folder) {
        Ok(file) => file,
        Err(refusal) => return (named, Err(refuse(&mut send, refusal))),
    };
    let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
    // The semaphore is never closed.
    let Ok(turn) = context.files.acquire().await else { return (name, Err("ended".to_owned())) };
    let sent = match open(&file).await {
        Some(file) => send_file(file, &mut send).await,
        None => Err(refuse(&mut send, Refusal::Unreadable)),
    };
    drop(turn);
    let sent = match sent {
        Ok(sent) => acknowledged(&mut send).await.map(|()| sent),
        Err(error) => Err(error),
    };
    (name, sent)
}

/// What has become something else since it was looked at is no file.
async fn open(path: &Path) -> Option<tokio::fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = tokio::fs::OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let file = options.open(path).await.ok()?;
    file.metadata().await.is_ok_and(|meta| meta.is_file()).then_some(file)
}

fn refuse(send: &mut SendStream, refusal: Refusal) -> String {
    // A stream that is closed already needs no reset.
    let _ = send.reset(VarInt::from_u32(refusal as u32));
    Refusal::of(refusal as u64).to_owned()
}

async fn send_file(mut file: tokio::fs::File, send: &mut SendStream) -> Sent {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(length) = file.read(&mut chunk).await else {
            return Err(refuse(send, Refusal::Unreadable));
        };
        if length == 0 {
            break;
        }
        hash.update(&chunk[..length]);
        bytes += length as u64;
        match tokio::time::timeout(STALL_MAX, send.write_all(&chunk[..length])).await {
            Ok(written) => written.map_err(|error| with_causes(&error))?,
            Err(_) => return Err(refuse(send, Refusal::Stalled)),
        }
    }
    Ok((bytes, Digits(&hash.finalize()).to_string()))
}

/// The end of the stream, and that the client has all of it.
async fn acknowledged(send: &mut SendStream) -> Result<(), String> {
    // It may have been closed by the client meanwhile, which the next line finds out.
    let _ = send.finish();
    match send.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("the client has stopped it".to_owned()),
        Err(error) => Err(with_causes(&error)),
    }
}

pub(crate) struct Digits<'a>(pub &'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tls::hex(self.0, f)
    }
}
