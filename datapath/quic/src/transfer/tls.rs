//! Certificates: the server creates its own, and the client checks its fingerprint.

use crate::transfer::{ALPN, Error, start};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use noq::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use noq::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use noq::rustls::{self, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The host name in every certificate. It is not checked; the fingerprint is.
pub const SERVER_NAME: &str = "remuda";

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// Parses 64 hexadecimal digits, with or without colons between them.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = || Error::Fingerprint(text.to_owned());
        let digits: Option<Vec<u32>> =
            text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16)).collect();
        let digits = digits.ok_or_else(refuse)?;
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |sum, d| sum << 4 | *d as u8))
            .collect();
        if digits.len() != 64 {
            return Err(refuse());
        }
        Ok(Self(bytes.try_into().map_err(|_| refuse())?))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

pub fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Creates a certificate, and the server's TLS configuration with it.
pub fn server() -> Result<(Fingerprint, Arc<QuicServerConfig>), Error> {
    let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(start)?;
    let certificate = CertificateDer::from(made.cert);
    let fingerprint = Fingerprint::of(&certificate);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = rustls::ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(start)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .map_err(start)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = QuicServerConfig::try_from(config).map_err(start)?;
    Ok((fingerprint, Arc::new(config)))
}

/// The TLS configuration of a client that trusts only the certificate with this fingerprint.
pub fn client(pin: Fingerprint) -> Result<Arc<QuicClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Pinned { pin, provider: Arc::clone(&provider) });
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(start)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(QuicClientConfig::try_from(config).map_err(start)?))
}

/// Trusts a single certificate. rustls still checks that the server has its private key.
#[derive(Debug)]
struct Pinned {
    pin: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Fingerprint::of(end_entity) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_64_digits() {
        let text = "0123456789abcdef".repeat(4);
        let read = Fingerprint::parse(&text.to_uppercase()).expect("a fingerprint");
        assert_eq!(read.to_string(), text);
        for bad in ["", "00", &text[1..], &format!("{text}0"), &text.replace('a', "g")] {
            let error = Fingerprint::parse(bad).expect_err("it is none").to_string();
            assert!(error.contains("fix:"), "{error}");
        }
    }
}
