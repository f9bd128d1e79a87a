//! An agent with root's privileges, which systemd starts.

use crate::{Shared, WAIT_MAX};
use serde_json::Value;
use std::path::Path;

/// A flow over loopback for 20 seconds at most, with the algorithm `remuda`: a sender of one packet
/// each hundredth of a second.
const FLOW: &str = r#"
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.socket()
sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"remuda")
sender.connect(listener.getsockname())
receiver, _ = listener.accept()
def receive():
    while receiver.recv(65536):
        pass
threading.Thread(target=receive, daemon=True).start()
print(sender.getsockname()[1], flush=True)
for _ in range(2000):
    sender.sendall(bytes(1000))
    time.sleep(0.01)
"#;

#[test]
fn the_agent_that_systemd_starts_drives_a_flow() {
    let Some(mut guest) = Shared::boot() else { return };
    println!("{}", guest.sh("remuda doctor"));
    guest.sh("systemd-run --unit=test-agent --property=Type=exec remuda agent --arm cubic");
    let ready = "until remuda flows --json; do sleep 0.5; done 2>/run/last-error";
    let flows = guest.check(ready, WAIT_MAX).expect("the agent answers");
    assert_eq!(flows, "", "there is no flow yet");
    guest.put(Path::new("/run/flow.py"), FLOW.as_bytes(), "644").expect("it is written");
    guest.sh("systemd-run --unit=test-flow python3 /run/flow.py");
    let seen = "until remuda flows --json | grep .; do sleep 0.5; done";
    let flows = guest.check(seen, WAIT_MAX).expect("a flow is seen");
    let flow: Value = serde_json::from_str(flows.lines().next().expect("one flow")).expect("JSON");
    println!("{flow}\n{}", guest.sh("remuda flows"));
    assert_eq!(flow["arm"], "cubic", "{flow}");
    assert!(flow["remote"].as_str().is_some_and(|to| to.starts_with("127.0.0.1:")), "{flow}");
    let inside = guest.sh("ss -tinH state established dst 127.0.0.1");
    assert!(inside.contains("remuda"), "{inside}");
    guest.sh("systemctl stop test-agent");
    let ended = guest.sh("systemctl show --property=Result,ExecMainStatus test-agent");
    assert_eq!(ended, "Result=success\nExecMainStatus=0\n");
    let left = guest.sh("ss -tinH state established dst 127.0.0.1");
    assert!(!left.contains("remuda"), "the flow is given back: {left}");
    guest.expect_no_complaint();
}
