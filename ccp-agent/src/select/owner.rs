//! Parts of a selector that say whose a socket is: user and network namespace.

use crate::users;
use std::fmt;

/// The user of a socket, or the user that made the socket's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub u32);

impl User {
    /// Parses a uid, or the name of a user of this host.
    pub fn parse(text: &str) -> Result<Self, String> {
        users::uid_of("uid", text).map(Self)
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A network namespace, by its cookie; 0 is the agent's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace(pub u64);

impl Namespace {
    /// Parses `own`, or a cookie as `remuda flows --json` shows it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "own" => Ok(Self(0)),
            cookie => cookie.parse().map(Self).map_err(|_| {
                "it must be \"own\", which is the agent's, or a namespace's cookie\nfix: `remuda \
                 flows --json` shows the cookie of each flow's namespace as netns"
            }),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("own") } else { write!(f, "{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_or_numbered() {
        assert_eq!(User::parse("root"), Ok(User(0)));
        assert_eq!(User::parse("1000"), Ok(User(1_000)));
        let error = User::parse("no-such-user").expect_err("nobody");
        assert!(error.contains("no-such-user") && error.contains("fix:"), "{error}");
    }

    #[test]
    fn a_namespace_is_our_own_or_a_cookie() {
        for text in ["own", "0", "4097"] {
            let namespace = Namespace::parse(text).expect(text);
            assert_eq!(Namespace::parse(&namespace.to_string()), Ok(namespace));
        }
        for text in ["", "-1", "/run/netns/blue", "18446744073709551616"] {
            assert!(Namespace::parse(text).is_err(), "{text:?}");
        }
    }
}
