//! Finds out which socket an application has passed, and which user made it.
//!
//! Every answer comes from the kernel, none from the application. The caller closes the descriptor
//! soon: while the agent holds it open, the application cannot close its connection.

use super::request::Refusal;
use nix::errno::Errno;
use nix::sys::stat::fstat;
use std::os::fd::{AsRawFd, OwnedFd};

/// A TCP socket that can become a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// The kernel's number of the socket (`SO_COOKIE`); the kernel assigns it when first asked.
    pub cookie: u64,
    /// The user that created the socket.
    pub uid: u32,
}

/// Reads a socket option that is one integer.
fn option<T: Copy + Default>(socket: &OwnedFd, name: libc::c_int) -> Result<T, Errno> {
    let mut value = T::default();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and `value` has the announced number of bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    Errno::result(done).map(|_| value)
}

/// Checks that a descriptor is a TCP socket that can become a flow.
pub fn look(socket: &OwnedFd) -> Result<TcpSocket, Refusal> {
    // Not by `fstat`: of a file, that asks the file system, which may be a user's own (FUSE).
    let domain: i32 = match option(socket, libc::SO_DOMAIN) {
        Err(Errno::ENOTSOCK) => {
            return Err(Refusal::new(Errno::ENOTSOCK, "the descriptor is no socket"));
        }
        domain => domain?,
    };
    let protocol: i32 = option(socket, libc::SO_PROTOCOL)?;
    let is_tcp = protocol == libc::IPPROTO_TCP && [libc::AF_INET, libc::AF_INET6].contains(&domain);
    if !is_tcp {
        let why = "the socket is not TCP; preferences of QUIC flows are set with `remuda prefer`";
        return Err(Refusal::new(Errno::EPROTONOSUPPORT, why));
    }
    if option::<i32>(socket, libc::SO_ACCEPTCONN)? != 0 {
        let why = "the socket listens; set a preference on each socket that it accepts";
        return Err(Refusal::new(Errno::EOPNOTSUPP, why));
    }
    Ok(TcpSocket { cookie: option(socket, libc::SO_COOKIE)?, uid: fstat(socket)?.st_uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    fn refused(socket: impl Into<OwnedFd>, part: &str) {
        let refusal = look(&socket.into()).expect_err(part).to_string();
        assert!(refusal.contains(part), "{refusal}");
    }

    #[test]
    fn a_tcp_socket_has_an_owner_and_a_cookie_that_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("it binds");
        let address = listener.local_addr().expect("an address");
        let one = TcpStream::connect(address).expect("it connects");
        let other: OwnedFd = TcpStream::connect(address).expect("it connects").into();
        let same: OwnedFd = one.try_clone().expect("a copy").into();
        let (one, other, same) = (look(&one.into()), look(&other), look(&same));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let one = one.expect("it is TCP");
        assert_eq!(one.uid, nix::unistd::geteuid().as_raw());
        assert_ne!(one.cookie, 0);
    }

    #[test]
    fn anything_else_is_refused() {
        refused(TcpListener::bind("127.0.0.1:0").expect("it binds"), "it accepts");
        refused(UdpSocket::bind("127.0.0.1:0").expect("it binds"), "not TCP");
        refused(UnixStream::pair().expect("a pair").0, "not TCP");
        refused(File::open("/dev/null").expect("it opens"), "no socket");
    }
}
