//! A quinn server that answers every request with data until it is stopped.

use quinn::crypto::rustls::QuicServerConfig;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{Endpoint, Incoming, ServerConfig, TransportConfig, rustls};
use remuda_quic::Settings;
use remuda_quic::quinn::{Datapath, Factory};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WINDOW_BYTES: u64 = 2 * 1_024 * 1_200;
static CHUNK: [u8; 65_536] = [0; 65_536];
const REQUEST_BYTES_MAX: usize = 4_096;

/// A server that is bound and does not run yet.
pub struct Server {
    endpoint: Endpoint,
    runtime: tokio::runtime::Runtime,
    fingerprint: String,
}

fn say(error: impl ToString) -> String {
    error.to_string()
}

impl Server {
    /// Binds the server; the agent of that run directory drives its flows.
    pub fn bind(address: SocketAddr, run_dir: &Path) -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed(["remuda".to_owned()]).map_err(say)?;
        let certificate = CertificateDer::from(made.cert);
        let mut fingerprint = String::new();
        for byte in Sha256::digest(&certificate) {
            write!(fingerprint, "{byte:02x}").map_err(say)?;
        }
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(ring::default_provider());
        let mut crypto = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(say)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .map_err(say)?;
        crypto.alpn_protocols = vec![b"hq-interop".to_vec()];
        let settings = Settings {
            name: "quinn".to_owned(),
            run_dir: run_dir.to_owned(),
            ..Settings::default()
        };
        let datapath = Datapath::start(settings).map_err(say)?;
        let mut transport = TransportConfig::default();
        transport.send_window(WINDOW_BYTES);
        transport.congestion_controller_factory(Arc::new(Factory::new(&datapath)));
        let crypto = QuicServerConfig::try_from(crypto).map_err(say)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let runtime = tokio::runtime::Runtime::new().map_err(say)?;
        let inside = runtime.enter();
        let endpoint = Endpoint::server(config, address).map_err(say)?;
        drop(inside);
        Ok(Self { endpoint, runtime, fingerprint })
    }

    /// SHA-256 of the server's certificate, in hexadecimal.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Serves until `stop` is set.
    pub fn run(self, stop: &AtomicBool) {
        let endpoint = self.endpoint.clone();
        self.runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(send(incoming));
            }
        });
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.endpoint.close(0u8.into(), b"done");
        self.runtime.shutdown_background();
    }
}

async fn send(incoming: Incoming) {
    let Ok(connection) = incoming.await else { return };
    let Ok((mut send, mut receive)) = connection.accept_bi().await else { return };
    let _ = receive.read_to_end(REQUEST_BYTES_MAX).await;
    while send.write_all(&CHUNK).await.is_ok() {}
}
