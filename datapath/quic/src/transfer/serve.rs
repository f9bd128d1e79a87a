//! The server of a file transfer.

use crate::transfer::contain::{Folder, Opened, REQUEST_BYTES_MAX, name_of};
use crate::transfer::quota::{Permit, Quota};
use crate::transfer::{
    CHUNK_BYTES, Error, Fingerprint, Refusal, User, runtime, socket, start, stopped, tls,
    transport, with_causes,
};
use crate::{Clock, Datapath, Factory, Settings};
use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::{
    Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Connections at once; the server refuses further ones.
const CONNECTIONS_MAX: usize = 4_096;
/// From this many connections on, a client must first prove its address (RFC 9000 section 8.1.2).
const CONNECTIONS_UNPROVEN_MAX: usize = CONNECTIONS_MAX / 8;
/// Connections of one client at once. `remuda quic-get --connections` opens at most 1,000.
const CONNECTIONS_OF_CLIENT_MAX: usize = 1_024;
/// From this many connections of a client on, it must prove its address: otherwise a forger could
/// use up the connections of another host.
const OF_CLIENT_UNPROVEN_MAX: usize = CONNECTIONS_OF_CLIENT_MAX / 8;
/// Simultaneous files of one connection.
const STREAMS_MAX: u32 = 64;
/// Simultaneous files of all connections, because each needs a descriptor. Further requests wait.
const FILES_MAX: usize = 768;
/// Simultaneous files of one client; so twelve clients are needed to use up all.
const FILES_OF_CLIENT_MAX: usize = 64;

/// How long the server waits.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// For one of the simultaneous files to become free.
    permit: Duration,
    /// For a client to send its request, or to take the next part of a file; and for a file to be
    /// opened or read.
    stall: Duration,
    /// For a client to acknowledge the last part, which is at most the window of 2.4 MB.
    end: Duration,
}

const WAITS: Waits = Waits {
    permit: Duration::from_secs(10),
    stall: Duration::from_secs(30),
    end: Duration::from_secs(300),
};

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
    /// The user that serves; `None` keeps the user of this process. The change affects the whole
    /// process and cannot be undone.
    pub user: Option<User>,
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Served {
    pub remote: SocketAddr,
    /// The name of the file in the folder; or the request, if it names none.
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
    folder: Folder,
    files: Arc<Quota>,
    connections: Arc<Quota>,
    waits: Waits,
    controller: Controller,
    datapath: Option<Datapath>,
    crypto: Arc<dyn noq::crypto::ServerConfig>,
    local: SocketAddr,
    on_served: Box<dyn Fn(Served) + Send + Sync>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the socket, opens the folder, creates a certificate, and then becomes the user that
    /// serves; as that user it looks for the agent. `on_served` is called after each request.
    pub fn bind(
        settings: &Serve,
        on_served: impl Fn(Served) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::bind_with(settings, WAITS, Box::new(on_served))
    }

    fn bind_with(
        settings: &Serve,
        waits: Waits,
        on_served: Box<dyn Fn(Served) + Send + Sync>,
    ) -> Result<Self, Error> {
        let (controller, address) = (settings.controller, settings.listen);
        if let (Controller::Agent, Some(user)) = (controller, &settings.user) {
            user.check_agent(&settings.run_dir)?;
        }
        let folder = Folder::open(&settings.folder)?;
        let bound = socket(address)?;
        let (fingerprint, crypto) = tls::server()?;
        settings.user.as_ref().map_or(Ok(()), User::assume)?;
        folder.check(settings.user.as_ref().map_or("of this process", User::name))?;
        let datapath = datapath(settings)?;
        let runtime = runtime()?;
        let inside = runtime.enter();
        let config = ServerConfig::with_crypto(Arc::clone(&crypto) as _);
        let failed = |source| Error::Socket { address, source };
        let of = EndpointConfig::default();
        let endpoint = Endpoint::new(of, Some(config), bound, Arc::new(TokioRuntime));
        let endpoint = endpoint.map_err(failed)?;
        let local = endpoint.local_addr().map_err(failed)?;
        let files = Quota::new(FILES_MAX, FILES_OF_CLIENT_MAX);
        let connections = Quota::new(CONNECTIONS_MAX, CONNECTIONS_OF_CLIENT_MAX);
        let context = Context {
            folder,
            files,
            connections,
            waits,
            controller,
            datapath,
            crypto,
            local,
            on_served,
        };
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
            let _ = timeout(Duration::from_secs(1), endpoint.wait_all_draining()).await;
        });
    }
}

fn datapath(settings: &Serve) -> Result<Option<Datapath>, Error> {
    if settings.controller != Controller::Agent {
        return Ok(None);
    }
    let (name, run_dir) = ("quic-serve".to_owned(), settings.run_dir.clone());
    let settings = Settings { name, run_dir, ..Settings::default() };
    Datapath::start(settings).map(Some).map_err(start)
}

async fn accept(endpoint: &Endpoint, context: &Arc<Context>) {
    while let Some(incoming) = endpoint.accept().await {
        let client = incoming.remote_address().ip();
        let many = endpoint.open_connections() >= CONNECTIONS_UNPROVEN_MAX
            || context.connections.users(client) >= OF_CLIENT_UNPROVEN_MAX;
        if many && !incoming.remote_address_validated() {
            // An error means that the client cannot be asked to prove its address; it is refused.
            let _ = incoming.retry();
            continue;
        }
        let Some(permit) = context.connections.now(client) else {
            incoming.refuse();
            continue;
        };
        tokio::spawn(converse(incoming, Arc::clone(context), permit));
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

async fn converse(incoming: Incoming, context: Arc<Context>, _permit: Permit) {
    let (config, remote) = (context.config(&incoming), incoming.remote_address());
    let Ok(connecting) = incoming.accept_with(config) else { return };
    // A failed handshake ends only this connection.
    let Ok(connection) = connecting.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            let began = Clock::start();
            let (file, sent) = answer(&context, remote.ip(), send, receive).await;
            (context.on_served)(Served { remote, file, elapsed: began.elapsed(), sent });
        });
    }
}

type Sent = Result<(u64, String), String>;

async fn answer(
    context: &Arc<Context>,
    client: IpAddr,
    mut send: SendStream,
    mut receive: RecvStream,
) -> (String, Sent) {
    let request = timeout(context.waits.stall, receive.read_to_end(REQUEST_BYTES_MAX)).await;
    let request = request.map_or_else(|_| Vec::new(), Result::unwrap_or_default);
    let escaped = |text: &str| text.trim_end().escape_debug().to_string();
    let name = match name_of(&request) {
        Ok(name) => name.to_owned(),
        Err(refusal) => {
            let request = String::from_utf8_lossy(&request);
            return (escaped(&request), Err(refuse(&mut send, refusal)));
        }
    };
    let shown = escaped(&name);
    let Some(permit) = context.files.wait(client, context.waits.permit).await else {
        return (shown, Err(refuse(&mut send, Refusal::Busy)));
    };
    let sent = match open(context, name).await {
        Ok(file) => send_file(file, &mut send, context.waits).await,
        Err(refusal) => Err(refuse(&mut send, refusal)),
    };
    drop(permit);
    (shown, sent)
}

/// Opens a file in a thread of its own, because a file system may take long, or for ever if another
/// user provides it.
async fn open(context: &Arc<Context>, name: String) -> Result<Opened, Refusal> {
    let limit = context.waits.stall;
    let context = Arc::clone(context);
    let opened = tokio::task::spawn_blocking(move || context.folder.file(&name));
    timeout(limit, opened)
        .await
        .map_or(Err(Refusal::Unreadable), |opened| opened.unwrap_or(Err(Refusal::Unreadable)))
}

fn refuse(send: &mut SendStream, refusal: Refusal) -> String {
    // An error means that the stream is closed already.
    let _ = send.reset(VarInt::from_u32(refusal as u32));
    Refusal::of(refusal as u64).to_owned()
}

/// Sends a file as long as it was when it was opened, and waits until the client has all of it.
async fn send_file(opened: Opened, send: &mut SendStream, waits: Waits) -> Sent {
    let mut hash = Sha256::new();
    let mut file = tokio::fs::File::from_std(opened.file).take(opened.bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    while file.limit() > 0 {
        // A file that has become shorter cannot be sent whole.
        let Ok(Ok(length @ 1..)) = timeout(waits.stall, file.read(&mut chunk)).await else {
            return Err(refuse(send, Refusal::Unreadable));
        };
        hash.update(&chunk[..length]);
        match timeout(waits.stall, send.write_all(&chunk[..length])).await {
            Ok(written) => written.map_err(|error| with_causes(&error))?,
            Err(_) => return Err(refuse(send, Refusal::Stalled)),
        }
    }
    match timeout(waits.end, acknowledged(send)).await {
        Ok(all) => all.map(|()| (opened.bytes, Digits(&hash.finalize()).to_string())),
        Err(_) => Err(refuse(send, Refusal::Stalled)),
    }
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

#[cfg(test)]
mod tests;
