//! The server of a file transfer.

use crate::transfer::contain::{REQUEST_BYTES_MAX, file_of};
use crate::transfer::{
    CHUNK_BYTES, Error, Fingerprint, Refusal, on, runtime, socket, start, stopped, tls, transport,
    with_causes,
};
use crate::{Clock, Datapath, Factory, Settings};
use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::{
    Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt,
};
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

/// Connections at once; the server refuses further ones.
const CONNECTIONS_MAX: usize = 4_096;
/// From this many connections on, a client must first prove its address (RFC 9000 section 8.1.2).
const CONNECTIONS_UNPROVEN_MAX: usize = CONNECTIONS_MAX / 8;
/// Simultaneous files of one connection.
const STREAMS_MAX: u32 = 64;
/// Simultaneous files of all connections, because each needs a descriptor. Further requests wait.
const FILES_MAX: usize = 768;
/// The server gives up on a client that reads nothing for this long.
const STALL_MAX: Duration = Duration::from_secs(30);

/// The congestion control of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    #[default]
    Agent,
    Cubic,
    NewReno,
    /// noq's own BBR, version 3.
    Bbr,
}

#[derive(Clone, Debug)]
pub struct Serve {
    pub folder: PathBuf,
    /// The address to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    pub controller: Controller,
    /// The agent's run directory.
    pub run_dir: PathBuf,
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Served {
    pub remote: SocketAddr,
    /// The path of the file in the folder; or the request, if there is no such file.
    pub file: String,
    /// From the request until all data was acknowledged.
    pub elapsed: Duration,
    /// The number of bytes and their SHA-256 in hexadecimal digits; or why the file was not sent.
    pub sent: Result<(u64, String), String>,
}

/// A server whose socket is bound, but which does not serve yet.
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
    on_served: Box<dyn Fn(Served) + Send + Sync>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a certificate, looks for the agent and binds the socket. `on_served` is called after
    /// each request.
    pub fn bind(
        settings: &Serve,
        on_served: impl Fn(Served) + Send + Sync + 'static,
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
        let on_served = Box::new(on_served);
        let files = Semaphore::new(FILES_MAX);
        let context = Context { folder, files, controller, datapath, crypto, local, on_served };
        drop(inside);
        Ok(Self { endpoint, runtime, context: Arc::new(context), fingerprint })
    }

    pub fn address(&self) -> SocketAddr {
        self.context.local
    }

    /// The fingerprint of the server's certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The datapath; `None` if the agent does not control the connections.
    pub fn datapath(&self) -> Option<&Datapath> {
        self.context.datapath.as_ref()
    }

    /// Serves until `stop` is true.
    pub fn run(self, stop: Arc<AtomicBool>) {
        let Self { endpoint, runtime, context, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                () = accept(&endpoint, &context) => {}
                () = stopped(stop) => {}
            }
            endpoint.close(VarInt::from_u32(0), b"the server ends");
            // Clients get a close message. One that does not answer runs into its own timeout.
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
            // An error means that the client cannot be asked to prove its address; it is refused.
            let _ = incoming.retry();
            continue;
        }
        tokio::spawn(converse(incoming, Arc::clone(context)));
    }
}

impl Context {
    /// noq does not tell a factory which connection it is for, so each connection gets its own.
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
    // A failed handshake ends only this connection.
    let Ok(connection) = connecting.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            let began = Clock::start();
            let (file, sent) = answer(&context, send, receive).await;
            (context.on_served)(Served { remote, file, elapsed: began.elapsed(), sent });
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
    let Ok(permit) = context.files.acquire().await else { return (name, Err("ended".to_owned())) };
    let sent = match open(&file).await {
        Some(file) => send_file(file, &mut send).await,
        None => Err(refuse(&mut send, Refusal::Unreadable)),
    };
    drop(permit);
    let sent = match sent {
        Ok(sent) => acknowledged(&mut send).await.map(|()| sent),
        Err(error) => Err(error),
    };
    (name, sent)
}

/// Opens a file. Returns `None` if it has been replaced by a link, a device or a folder since it
/// was checked.
async fn open(path: &Path) -> Option<tokio::fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = tokio::fs::OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let file = options.open(path).await.ok()?;
    file.metadata().await.is_ok_and(|meta| meta.is_file()).then_some(file)
}

fn refuse(send: &mut SendStream, refusal: Refusal) -> String {
    // An error means that the stream is closed already.
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

/// Ends the stream, and waits until the client has received all of it.
async fn acknowledged(send: &mut SendStream) -> Result<(), String> {
    // If the client has closed the stream meanwhile, the next line reports it.
    let _ = send.finish();
    match send.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("the client has stopped the transfer".to_owned()),
        Err(error) => Err(with_causes(&error)),
    }
}

pub(crate) struct Digits<'a>(pub &'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tls::hex(self.0, f)
    }
}
