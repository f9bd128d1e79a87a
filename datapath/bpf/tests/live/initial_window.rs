//! The initial window of a destination, on loopback.

use super::*;

/// The window of a new connection whose socket asked for `algorithm` before, in segments.
fn window_at_birth(address: &str, algorithm: &str) -> u32 {
    cwnd_pkts(&at_birth(address, algorithm).0)
}

/// A new connection whose socket asked for `algorithm` before, and the listener that it reached.
fn at_birth(address: &str, algorithm: &str) -> (TcpStream, TcpListener) {
    use std::os::fd::FromRawFd;
    let listener = TcpListener::bind(address).expect("a port of loopback");
    fix_segment_size(&listener);
    let to = listener.local_addr().unwrap();
    let family = if to.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers; the descriptor returned is ours alone.
    let socket = unsafe { TcpStream::from_raw_fd(libc::socket(family, libc::SOCK_STREAM, 0)) };
    choose(&socket, algorithm);
    let (name, length) = sockaddr(to);
    // SAFETY: a valid address of that length.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(algorithm_of(&socket), algorithm);
    (socket, listener)
}

/// The smoothed round trip, in microseconds, and the pacing rate, in bytes per second.
fn rtt_and_pacing(socket: &TcpStream) -> (u32, u64) {
    // SAFETY: all zeros is a valid value of a struct of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut bytes = [0_u8; 112];
    let mut length = bytes.len() as u32;
    let (fd, to) = (socket.as_raw_fd(), bytes.as_mut_ptr().cast());
    // SAFETY: the buffer is valid for `length`; the kernel writes no more.
    let got = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length) };
    assert_eq!((got, length), (0, 112), "TCP_INFO");
    // SAFETY: both are plain bytes, and the source is at least as long.
    unsafe {
        let size = size_of_val(&info).min(bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut info).cast(), size);
    }
    // `tcpi_pacing_rate` (include/uapi/linux/tcp.h) follows the 104 bytes of libc's struct.
    let rate = u64::from_ne_bytes(bytes[104..112].try_into().expect("8 bytes"));
    (info.tcpi_rtt, rate)
}

#[test]
fn a_large_window_is_paced_and_within_what_the_peer_takes() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut agent = Agent::start();
        agent.listen();
        let name = name_of(&agent);
        for (initial_cwnd_pkts, is_paced) in [(200, true), (30, true), (10, false)] {
            let start = RememberedStart { program_uid: None, initial_cwnd_pkts };
            agent.datapath.set_destination(around(address, 8), start).expect("it is set");
            agent.listen();
            let (socket, _listener) = at_birth(address, &name);
            let cwnd = cwnd_pkts(&socket);
            // A socket of loopback offers 64 KiB at first: 45 segments of 1448 bytes.
            assert!(
                (initial_cwnd_pkts.min(44)..=initial_cwnd_pkts.min(47)).contains(&cwnd),
                "{cwnd}"
            );
            let (rtt_us, rate) = rtt_and_pacing(&socket);
            let want = u64::from(cwnd) * 1_448 * 2 * 1_000_000 / u64::from(rtt_us.max(1));
            println!("{address}: {cwnd} segments, {rtt_us} us, paced at {rate} bytes/s");
            // The round trips of loopback are a few microseconds: the rate meets its bound.
            let least = (want / 10 * 7).min(12_000_000_000);
            let is_so = (least..=want / 10 * 13).contains(&rate);
            assert!(is_so || !is_paced, "{rate}, and twice a window per round trip is {want}");
        }
    }
}

fn sockaddr(to: std::net::SocketAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    // SAFETY: all zeros is a valid value of a struct of integers.
    let mut name: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match to.ip() {
        IpAddr::V6(ip) => {
            name.sin6_family = libc::AF_INET6 as u16;
            name.sin6_port = to.port().to_be();
            name.sin6_addr.s6_addr = ip.octets();
            (name, size_of::<libc::sockaddr_in6>() as u32)
        }
        IpAddr::V4(ip) => {
            // `sockaddr_in` has the port at the same offset, and the address at sin6_flowinfo.
            name.sin6_family = libc::AF_INET as u16;
            name.sin6_port = to.port().to_be();
            name.sin6_flowinfo = ip.to_bits().to_be();
            (name, size_of::<libc::sockaddr_in>() as u32)
        }
    }
}

#[test]
fn the_longest_prefix_holds_and_a_silent_agent_has_no_say() {
    let _one = exclusive();
    if skip() {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut agent = Agent::start();
        agent.listen();
        let name = name_of(&agent);
        let native = window_at_birth(address, &name);
        let only = |initial_cwnd_pkts| RememberedStart { program_uid: None, initial_cwnd_pkts };
        let steps =
            [(19, 15, 15), (8, 20, 20), (0, 30, 30), (8, 25, 30), (13, 35, 30), (0, 0, native)];
        for (fewer_bits, pkts, want) in steps {
            let network = around(address, fewer_bits);
            agent.datapath.set_destination(network, only(pkts)).expect("the network is set");
            agent.listen();
            assert_eq!(window_at_birth(address, &name), want, "{address} {network:?}");
        }
        agent.datapath.forget_destination(around(address, 0)).expect("it is forgotten");
        agent.datapath.forget_destination(around(address, 0)).expect("forgetting twice is fine");
        agent.listen();
        assert_eq!(window_at_birth(address, &name), 25, "the wider network's window applies again");
        let unknown = RememberedStart { program_uid: Some(9), initial_cwnd_pkts: 5 };
        let error = agent.datapath.set_destination(around(address, 8), unknown);
        assert!(matches!(error, Err(remuda_bpf::Error::NoProgram(9))), "{error:?}");
        thread::sleep(TIMEOUT + Duration::from_millis(50));
        assert_eq!(window_at_birth(address, &name), native, "the kernel's own window");
    }
}
