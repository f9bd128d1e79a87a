//! Runs a command behind a link to the namespace of the caller.

use super::block::{ALL, Block, DEPTH_MAX};
use crate::child::{attend, command, start};
use crate::contain::{self, Side};
use crate::device;
use crate::error::Error;
use crate::frame::Frame;
use crate::namespace::Namespace;
use crate::routes::{self, Route};
use crate::signals::Signals;
use crate::subnet::Subnet;
use crate::testbed::{End, Testbed};
use remuda_link::PathSpec;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

/// The device behind the link. A shell called there recognises by it that it is nested.
const INGRESS: &str = "remuda-in";
/// The device in the caller's namespace; the kernel numbers it.
const EGRESS: &str = "remuda%d";

const BASE: &str = "MAHIMAHI_BASE";
const PREFIX: &str = "MAHIMAHI_SHELL_PREFIX";
const PASSTHROUGH: &str = "MAHIMAHI_PASSTHROUGH_UNTIL_SIGNAL";
/// Bash runs this before its first prompt, after its startup files have set a prompt.
const PROMPT: &str = "PS1=\"$MAHIMAHI_SHELL_PREFIX$PS1\"; unset PROMPT_COMMAND";

/// A command, and the path to put it behind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shell {
    /// The name of the command line: `mm-delay`.
    pub(super) name: &'static str,
    pub(super) path: PathSpec,
    /// Ends the command when a trace ends.
    pub(super) once: bool,
    /// The text that goes before the prompt.
    pub(super) prefix: String,
    pub(super) command: Vec<OsString>,
}

impl Shell {
    /// Runs the command. Returns its exit status. Forks, like [`LinkArgs::run`]: call it before
    /// starting a thread.
    ///
    /// [`LinkArgs::run`]: crate::args::LinkArgs::run
    pub(super) fn run(&self) -> Result<i32, Error> {
        if let Some(value) = std::env::var_os(PASSTHROUGH) {
            return Err(Error::Argument {
                option: PASSTHROUGH.to_owned(),
                value: value.to_string_lossy().into_owned(),
                rule: "not supported, the link works from the start; unset it".to_owned(),
            });
        }
        match contain::enter()? {
            Side::Outside { status } => Ok(status),
            Side::Inside => self.run_inside(),
        }
    }

    fn run_inside(&self) -> Result<i32, Error> {
        let (block, _name) = take_block()?;
        let testbed = testbed(&self.path, block)?;
        let signals = Signals::catch()?;
        let mut command = command(testbed.client(), &self.command);
        let child = start(self.set_environment(&mut command, block))?;
        let status = attend(&testbed, child, signals, self.once)?;
        self.warn(&testbed)?;
        testbed.close()?;
        Ok(status)
    }

    fn set_environment<'a>(&self, command: &'a mut Command, block: Block) -> &'a mut Command {
        // Within another shell, keep the base of the outermost one.
        let outermost = std::env::var(BASE).ok().filter(|base| base.parse::<Ipv4Addr>().is_ok());
        let base = outermost.unwrap_or_else(|| block.egress().address.to_string());
        let outer = std::env::var(PREFIX).unwrap_or_default();
        command
            .env(BASE, base)
            .env(PREFIX, format!("{outer}{}", self.prefix))
            .env("PROMPT_COMMAND", PROMPT)
    }

    /// Warns of packets that the kernel lost: the link's logs do not contain them.
    fn warn(&self, testbed: &Testbed) -> Result<(), Error> {
        let stats = testbed.stats()?;
        for (name, direction) in [("up", &stats.up), ("down", &stats.down)] {
            let unseen = direction.lost_before_link + direction.lost_after_link;
            if unseen > 0 {
                eprintln!("{}: {name} WARNING: the kernel lost {unseen} more packets", self.name);
            }
        }
        Ok(())
    }
}

/// Takes a block that no other shell has and that the namespace does not use otherwise. An abstract
/// socket name in this network namespace reserves it: the kernel gives each name to one socket, and
/// frees it when the process ends in any way.
fn take_block() -> Result<(Block, UnixDatagram), Error> {
    let outer = device::subnet_of(INGRESS).and_then(Block::of_ingress);
    let ingress = outer.and_then(|_| device::index_of(INGRESS));
    let used = used_subnets(ingress).map_err(Error::doing("list the routes"))?;
    let (mut in_use, mut blocks) = (Vec::new(), 0);
    for block in Block::free(outer) {
        blocks += 1;
        let name = format!("remuda-shell-{}", block.egress());
        let bound =
            SocketAddr::from_abstract_name(name).and_then(|name| UnixDatagram::bind_addr(&name));
        let Ok(socket) = bound else { continue };
        match used.iter().find(|subnet| block.overlaps(**subnet)) {
            None => return Ok((block, socket)),
            Some(subnet) => in_use.push(subnet),
        }
    }
    match in_use.first() {
        Some(example) => {
            let (used, held) = (in_use.len(), blocks - in_use.len());
            Err(Error::BlocksInUse { used, held, example: example.to_string() })
        }
        None => Err(Error::TooManyShells { depth: DEPTH_MAX }),
    }
}

/// What the calling thread's namespace reaches within the shells' addresses, but for all of them
/// together, and what it reaches by the device of the shell that it is behind.
fn used_subnets(ingress: Option<u32>) -> io::Result<Vec<Subnet>> {
    let of = |route: &Route| {
        let is_part = route.to.bits > ALL.bits;
        let gateway = route.gateway.map(|address| Subnet { address, bits: 32 });
        let subnets = [is_part.then_some(route.to), gateway];
        let is_outer = ingress.is_some() && route.device == ingress;
        subnets.into_iter().flatten().filter(move |subnet| !is_outer && subnet.overlaps(ALL))
    };
    let routes = routes::list(|route| of(route).next().is_some())?;
    Ok(routes.iter().flat_map(of).collect())
}

fn testbed(path: &PathSpec, block: Block) -> Result<Testbed, Error> {
    // Refuse a wrong description before any other work.
    path.build::<Frame>()?;
    let (egress, ingress) = (block.egress(), block.ingress());
    let client = Namespace::create(INGRESS, ingress.address, Ipv6Addr::UNSPECIFIED)?;
    forward(&client)?;
    let inside = client.run(|| {
        let (tun, _) = device::open_tun(INGRESS)?;
        device::configure(INGRESS, ingress, Ipv6Addr::UNSPECIFIED)?;
        device::add_route(INGRESS, Subnet::ALL)?;
        Ok::<_, Error>(tun)
    })??;
    let (outside, name) = device::open_tun(EGRESS)?;
    device::configure(&name, egress, Ipv6Addr::UNSPECIFIED)?;
    let server = Namespace::current(&name, egress.address)?;
    let client = End { namespace: client, tun: inside };
    Testbed::join(path, client, End { namespace: server, tun: outside }, None)
}

/// Prepares a testbed for shells called within it: the client forwards, the server has a route
/// back.
pub(crate) fn let_through(client: &Namespace, server: &Namespace) -> Result<(), Error> {
    forward(client)?;
    server.run(|| device::add_route(server.device(), ALL))?
}

fn forward(namespace: &Namespace) -> Result<(), Error> {
    namespace.set_sysctl("net.ipv4.ip_forward", "1")
}
