//! What an agent and its broker say to each other: packets of a unix socket of type
//! `SOCK_SEQPACKET`, so that each packet is whole.
//!
//! A request is a byte that names its kind and, after it, what it is about. A reply is a byte that
//! is 0, or 1 if it is an error, and then the answer, or the error as text.

use crate::privileges::{Started, Walked};
use crate::{Error, layout::NAME_BYTES};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::HashSet;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The longest packet, in bytes. An `INSTALL` has at most 32,678, and a text may be longer.
pub const PACKET_BYTES_MAX: usize = 70_000;
/// The most descriptors that one reply carries: maps and links. The kernel's limit is 253.
pub const DESCRIPTORS_MAX: usize = 250;
/// The most network namespaces that one recall names.
const NAMESPACES_MAX: usize = 4_096;

/// Include/uapi/asm-generic/socket.h: whether the socket takes descriptors.
const SO_PASSRIGHTS: libc::c_int = 83;

const START: u8 = 0;
const INSTALL: u8 = 1;
const LOOKER: u8 = 2;
const RECALL: u8 = 3;
const CHECK_NATIVE: u8 = 4;
const LET_GO: u8 = 5;
const VACATE: u8 = 6;

const DONE: u8 = 0;
const REFUSED: u8 = 1;

/// Everything that an agent can ask of a broker.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Load and attach everything that the broker's own configuration names. The reply carries the
    /// descriptors.
    Start,
    /// Check, compile and load the program of an `INSTALL`.
    Install(&'a [u8]),
    /// Attach the iterator over the flows. The reply carries its link.
    Looker,
    /// Change the algorithm of our flows in these network namespaces, as their slots say. There is
    /// no reply, so that the agent does not wait.
    Recall(HashSet<u32>),
    /// Free the slot of a flow, by its sid, whose end the kernel side could not see. There is no
    /// reply.
    Vacate(u32),
    /// Check that the kernel has an algorithm, and load its module.
    CheckNative(&'a str),
    /// Give every flow back to the kernel's own algorithm, and unregister ours.
    LetGo,
}

impl<'a> Request<'a> {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Start => vec![START],
            Self::Install(message) => [&[INSTALL], *message].concat(),
            Self::Looker => vec![LOOKER],
            Self::Recall(namespaces) => {
                let inodes = namespaces.iter().take(NAMESPACES_MAX).copied();
                [RECALL].into_iter().chain(inodes.flat_map(u32::to_ne_bytes)).collect()
            }
            Self::Vacate(sid) => [&[VACATE][..], &sid.to_ne_bytes()].concat(),
            Self::CheckNative(name) => [&[CHECK_NATIVE], name.as_bytes()].concat(),
            Self::LetGo => vec![LET_GO],
        }
    }

    /// Reads a request of an agent, which may be hostile. The error says what is wrong with it.
    pub fn parse(packet: &'a [u8]) -> Result<Self, String> {
        let (kind, rest) = packet.split_first().ok_or("an empty request")?;
        let bare = |request| {
            let rule = format!("request {kind} has nothing after its kind");
            if rest.is_empty() { Ok(request) } else { Err(rule) }
        };
        match *kind {
            START => bare(Self::Start),
            INSTALL => Ok(Self::Install(rest)),
            LOOKER => bare(Self::Looker),
            RECALL => {
                let (inodes, odd) = rest.as_chunks::<4>();
                if !odd.is_empty() || inodes.len() > NAMESPACES_MAX {
                    return Err(format!("a recall names at most {NAMESPACES_MAX} inode numbers"));
                }
                Ok(Self::Recall(inodes.iter().map(|inode| u32::from_ne_bytes(*inode)).collect()))
            }
            VACATE => {
                let sid = rest.try_into().map_err(|_| "a sid has 4 bytes".to_owned())?;
                Ok(Self::Vacate(u32::from_ne_bytes(sid)))
            }
            CHECK_NATIVE => {
                let name = str::from_utf8(rest).ok().filter(|name| name.len() < NAME_BYTES);
                name.map(Self::CheckNative).ok_or("the name of an algorithm is too long".into())
            }
            LET_GO => bare(Self::LetGo),
            _ => Err(format!("there is no request of kind {kind}")),
        }
    }
}

/// A reply without its descriptors. An answer is fields that end with a NUL.
pub fn reply(answer: Result<Vec<u8>, String>) -> Vec<u8> {
    match answer {
        Ok(answer) => [vec![DONE], answer].concat(),
        Err(text) => [vec![REFUSED], text.into_bytes()].concat(),
    }
}

/// The answer of a reply; [`Error::Broker`] if it is an error.
pub fn answer<'a>(packet: &'a [u8], what: &'static str) -> Result<&'a [u8], Error> {
    match packet.split_first() {
        Some((&DONE, rest)) => Ok(rest),
        Some((&REFUSED, text)) => {
            Err(Error::Broker { what, text: String::from_utf8_lossy(text).into_owned() })
        }
        _ => Err(strange(what)),
    }
}

pub fn strange(what: &'static str) -> Error {
    Error::Broker { what, text: "its reply is not of this protocol".to_owned() }
}

/// What a start's reply says beside its descriptors.
#[derive(Debug, PartialEq, Eq)]
pub struct StartReply {
    pub name: String,
    pub can_look: bool,
    pub started: Started,
}

const SEPARATOR: char = '\0';

impl StartReply {
    pub fn encode(&self) -> Vec<u8> {
        let Started { adopted, mended, warnings } = &self.started;
        let mut fields = vec![
            self.name.clone(),
            self.can_look.to_string(),
            adopted.to_string(),
            mended.clone().unwrap_or_default(),
        ];
        fields.extend(warnings.iter().map(|warning| warning.replace(SEPARATOR, " ")));
        fields.join("\0").into_bytes()
    }

    pub fn parse(answer: &[u8]) -> Option<Self> {
        let mut fields = str::from_utf8(answer).ok()?.split(SEPARATOR);
        let name = fields.next()?.to_owned();
        let can_look = fields.next()?.parse().ok()?;
        let adopted = fields.next()?.parse().ok()?;
        let mended = Some(fields.next()?.to_owned()).filter(|name| !name.is_empty());
        let warnings = fields.map(ToOwned::to_owned).collect();
        Some(Self { name, can_look, started: Started { adopted, mended, warnings } })
    }
}

/// The outcome of a walk: how many changed, how many were refused, and what was missed.
pub fn encode_walked(walked: &Walked) -> Vec<u8> {
    let missed = walked.missed.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{}\0{}\0{missed}", walked.changed, walked.refused).into_bytes()
}

pub fn parse_walked(answer: &[u8], what: &'static str) -> Option<Walked> {
    let mut fields = str::from_utf8(answer).ok()?.splitn(3, SEPARATOR);
    let changed = fields.next()?.parse().ok()?;
    let refused = fields.next()?.parse().ok()?;
    let missed = Some(fields.next()?.to_owned()).filter(|text| !text.is_empty());
    Some(Walked { changed, refused, missed: missed.map(|text| Error::Broker { what, text }) })
}

/// Makes the kernel refuse descriptors that are sent to this socket (Linux 6.16). An older kernel
/// takes them, and closes them when the message is received without room for them.
pub fn refuse_descriptors(socket: &impl AsRawFd) {
    let off: libc::c_int = 0;
    // SAFETY: an open descriptor, and a value of the option's type and size.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// Sends one packet. It does not wait for room.
pub fn send(socket: BorrowedFd<'_>, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags).map(|_| ())
}

/// A packet, and the descriptors that came with it.
pub type Received = (Vec<u8>, Vec<OwnedFd>);

/// Takes one packet, and at most so many descriptors; the kernel closes others. An empty packet
/// means that the other end is gone. `None`: the packet, or what it carried, did not fit.
pub fn receive(socket: BorrowedFd<'_>, descriptors_max: usize) -> Result<Option<Received>, Errno> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let bytes = if descriptors_max == 0 { 0 } else { room.len() };
    let mut ancillary = RecvAncillaryBuffer::new(&mut room[..bytes]);
    let into = &mut [IoSliceMut::new(&mut packet)];
    let received = recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    // Owned before anything is looked at, so that a refused packet leaves none open.
    let fds: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    packet.truncate(received.bytes);
    Ok((!cut && fds.len() <= descriptors_max).then_some((packet, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was() {
        for request in [
            Request::Start,
            Request::Install(b"bytes"),
            Request::Looker,
            Request::Recall(HashSet::from([1, 2, u32::MAX])),
            Request::Vacate(77),
            Request::CheckNative("cubic"),
            Request::LetGo,
        ] {
            assert_eq!(Request::parse(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn a_malformed_request_is_refused_by_its_rule() {
        let many = [&[RECALL][..], &[0; 4 * (NAMESPACES_MAX + 1)]].concat();
        for (packet, rule) in [
            (&[][..], "an empty request"),
            (&[START, 0][..], "nothing after its kind"),
            (&[LET_GO, 9][..], "nothing after its kind"),
            (&[RECALL, 1, 2, 3][..], "inode numbers"),
            (&many, "at most 4096"),
            (b"\x04a name of 16 letters", "too long"),
            (b"\x04\xff", "too long"),
            (&[VACATE, 1, 2][..], "a sid has 4 bytes"),
            (&[7][..], "no request of kind 7"),
        ] {
            let refused = Request::parse(packet).expect_err(rule);
            assert!(refused.contains(rule), "{refused}");
        }
    }

    #[test]
    fn replies_come_back_as_they_were() {
        let started = Started {
            adopted: 7,
            mended: Some("cubic".to_owned()),
            warnings: vec!["one".to_owned(), "two\nlines".to_owned()],
        };
        let start = StartReply { name: "remuda".to_owned(), can_look: true, started };
        let packet = reply(Ok(start.encode()));
        let parsed = answer(&packet, "start").ok().and_then(StartReply::parse);
        assert_eq!(parsed, Some(start));
        let walked = Walked { changed: 3, refused: 1, missed: Some(Error::NotAProgram) };
        let again = parse_walked(&encode_walked(&walked), "walk").expect("it parses");
        assert_eq!((again.changed, again.refused), (3, 1));
        assert!(again.missed.is_some_and(|error| error.to_string().contains("not a program")));
        let refused = answer(&reply(Err("the rule".to_owned())), "install").expect_err("refused");
        assert!(refused.to_string().contains("the rule"), "{refused}");
        for strange in [&[][..], &[2], &[DONE, 0xff]] {
            assert!(answer(strange, "start").ok().and_then(StartReply::parse).is_none());
        }
    }
}
