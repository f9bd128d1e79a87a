//! The ten lines that a program with noq adds, between the two marks.
//!
//! The example runs a server and a client in one process, on loopback. If an agent runs, `remuda
//! flows --run-dir DIR` shows the connection: `REMUDA_RUN_DIR=DIR cargo run -p remuda-quic
//! --features transfer --example noq`.

use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use noq::{ClientConfig, Endpoint, Incoming, ServerConfig, TransportConfig, rustls};
use remuda_quic::{Datapath, Factory, Settings};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

const BYTES: usize = 50_000_000;

// ---- from here ----
fn remuda() -> Result<Datapath, remuda_quic::Error> {
    let run_dir = std::env::var_os("REMUDA_RUN_DIR").unwrap_or("/run/remuda".into()).into();
    Datapath::start(Settings { run_dir, ..Settings::default() })
}

fn transport(remuda: &Datapath, local: SocketAddr, remote: SocketAddr) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let factory = Factory::new(remuda).between(local, remote);
    transport.congestion_controller_factory(Arc::new(factory));
    transport
}
// ---- to here ----

async fn serve(incoming: Incoming, mut config: ServerConfig, remuda: Datapath, local: SocketAddr) {
    let transport = transport(&remuda, local, incoming.remote_address());
    config.transport_config(Arc::new(transport));
    let connecting = incoming.accept_with(Arc::new(config)).expect("the endpoint is open");
    let connection = connecting.await.expect("the handshake");
    let mut stream = connection.open_uni().await.expect("a stream");
    stream.write_all(&vec![7; BYTES]).await.expect("the client reads");
    stream.finish().expect("it is open");
    connection.closed().await;
}

async fn run() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    let server_config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client_config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));

    let remuda = remuda()?;
    let server = Endpoint::server(server_config.clone(), "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let (of_server, datapath) = (server.clone(), remuda.clone());
    tokio::spawn(async move {
        while let Some(incoming) = of_server.accept().await {
            tokio::spawn(serve(incoming, server_config.clone(), datapath.clone(), address));
        }
    });
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect_with(client_config, address, "localhost")?.await?;
    let bytes = connection.accept_uni().await?.read_to_end(BYTES).await?.len();
    connection.close(0u8.into(), b"done");
    client.wait_all_draining().await;
    let by = if remuda.has_agent() { "the agent" } else { "NewReno, because no agent runs" };
    println!("{bytes} bytes by {by}; {} reports", remuda.counters().reports);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Runtime::new()?.block_on(run())
}
