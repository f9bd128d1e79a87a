//! Debian's nginx in a network namespace, and a client that fetches files from it.

use crate::root;
use ccp_agent::clock;
use remuda_live::Namespace;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The port on which [`Nginx`] listens.
pub const PORT: u16 = 80;

/// The end of the head of a response.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A running nginx. Dropping it kills the process.
#[derive(Debug)]
pub struct Nginx(Child);

impl Nginx {
    /// Where `tools/unpack.sh nginx` puts the program.
    pub fn program() -> PathBuf {
        root().join("target/nginx/usr/sbin/nginx")
    }

    /// Starts [`Self::program`] in the namespace `server`. It listens at `address`, and serves a
    /// file of each of these sizes, in bytes, which has its size as its name. All its files are in
    /// `folder`. The thread that calls this must live as long as the server.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or the program does not start.
    pub fn start(
        folder: &Path,
        server: &Namespace,
        address: Ipv4Addr,
        sizes: &[usize],
    ) -> io::Result<Self> {
        for size in sizes {
            fs::write(folder.join(size.to_string()), vec![7; *size])?;
        }
        let at = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {at}/{what};"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/errors;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; {temporary} root {at}; tcp_nopush off;\n\
             server {{ listen {address}:{PORT}; }} }}\n"
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, config)?;
        let mut command = server.command(Self::program());
        command.arg("-c").arg(&file).arg("-p").arg(folder).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

/// Fetches the file of `size` bytes over a connection that stays open. Returns the time from the
/// request to the last byte.
///
/// # Errors
///
/// The connection fails or times out, or the server does not answer with the file.
pub fn fetch(stream: &mut TcpStream, size: usize) -> io::Result<Duration> {
    let request = format!("GET /{size} HTTP/1.1\r\nHost: test\r\n\r\n");
    let begun_ns = clock::monotonic_ns();
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::with_capacity(size + 1_024);
    let mut block = [0; 65_536];
    let mut expected_bytes = None;
    while expected_bytes.is_none_or(|bytes| response.len() < bytes) {
        let count = stream.read(&mut block)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        response.extend(&block[..count]);
        let head_end = || response.windows(HEAD_END.len()).position(|it| it == HEAD_END);
        expected_bytes = expected_bytes.or_else(|| Some(head_end()? + HEAD_END.len() + size));
    }
    let took = Duration::from_nanos(clock::monotonic_ns() - begun_ns);
    if !response.starts_with(b"HTTP/1.1 200") {
        let head = String::from_utf8_lossy(&response[..response.len().min(60)]).into_owned();
        return Err(io::Error::other(head));
    }
    Ok(took)
}
