//! The address of a file: `HOST:PORT/FILE`, with or without `quic://` in front.

use crate::transfer::Error;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

const SCHEME: &str = "quic://";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address of the server, with its port.
    pub authority: String,
    /// The path of the file on the server, with its first slash.
    pub path: String,
}

impl Target {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = |rule| Err(Error::Address { address: text.to_owned(), rule });
        let Some((authority, path)) = text.strip_prefix(SCHEME).unwrap_or(text).split_once('/')
        else {
            return refuse("it has no file name");
        };
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none_or(|port| port == 0) {
            return refuse("it has no port from 1 to 65535");
        }
        if path.is_empty() || path.contains(['\r', '\n']) {
            return refuse("it has no file name");
        }
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}") })
    }

    /// The last part of the path, without folders.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("file")
    }

    pub fn resolve(&self) -> Result<SocketAddr, Error> {
        let failed = |why: String| Error::Connection { address: self.authority.clone(), why };
        let mut found = self.authority.to_socket_addrs().map_err(|e| failed(e.to_string()))?;
        found.next().ok_or_else(|| failed("the name has no address".to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_and_are_not() {
        let rows = [
            ("localhost:4433/a", Some(("localhost:4433", "/a"))),
            ("quic://[::1]:1/a/b c", Some(("[::1]:1", "/a/b c"))),
            ("localhost:4433", None),
            ("localhost:4433/", None),
            ("localhost/a", None),
            ("localhost:0/a", None),
            ("localhost:70000/a", None),
            ("a:1/b\r\nGET /c", None),
        ];
        for (text, want) in rows {
            let got = Target::parse(text).ok().map(|t| (t.authority, t.path));
            assert_eq!(got, want.map(|(a, p)| (a.to_owned(), p.to_owned())), "{text}");
        }
        assert_eq!(Target::parse("h:1/a/b").expect("an address").file_name(), "b");
    }
}
