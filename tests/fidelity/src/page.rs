//! docs/fidelity.md: what the figures mean, the figures, and what moves them.

use std::path::Path;

const HEAD: &str = "\
# Fidelity

Does an arm under the agent do what the kernel's own algorithm of that name does? `make fidelity`
writes this page (16 minutes on two idle cores): reno, cubic, bbr, each on an emulated path of 20 ms
each way, one flow at a time. Each scenario has a virtual machine of its own, whose clock counts
instructions (`tests/guest`): real TCP, real BPF and Debian's kernel on one processor of 1 GHz, in
which a busy host changes nothing. Without `--guest`, `remuda-fidelity` does the same on this
machine's kernel (root).

Goodput counts the flow's whole life; the queueing delay is the 95th percentile over the packets at
the bottleneck, as the link itself saw it. Ratios are ours to the kernel's own of the same round; of
several rounds the median and spread. *kernel's again* is the same ratio of a second run of the
kernel's own in that round (`--control`): how far it is from itself.
";

const REASONS: &str = "\
## What moves these figures

**bbr, the queueing delay.** A BBR flow's queue is empty between probes, unless its filter holds a
bandwidth sample that is a few per cent too large: then a queue stands for seconds. Such samples
come of ACKs that were held up and then came in a bunch, by a host that is late. The kernel's own
has them as ours does. Two things made hosts late here. The link's thread waited for programs that
ended their slice of the processor first; it has real-time priority now. And a hypervisor takes
processors away, which guests do not notice. On the host, a run of which more than 0.7 % of a
processor was stolen is *disturbed*, and is run again, four times at most; the least disturbed one
counts.

**reno and cubic at 96 Mbit/s with loss.** Slow start fills the queue for the first second; after
that, at a loss of 0.01 %, the window never does again. So all that a run of 30 s has in its queue
is that second, 3 to 8 % of its packets, and the 95th percentile lies on its falling edge: with
three seeds, cubic's ratio was 0.42, 0.99 and 2.64.

**What CCP-style control cannot match.** An arm answers by report, four (reno, cubic) to sixteen
(bbr) times a round trip, where the kernel's own answers each ACK. And our cubic leaves slow start
by HyStart++ (RFC 9406): on a host that is late the kernel's HyStart often misses the end of slow
start, and the kernel then sends more again, once.
";

/// Writes the page around what was measured.
pub fn write(path: &Path, measured: &str) -> std::io::Result<()> {
    std::fs::write(path, format!("{HEAD}\n{}\n\n{REASONS}", measured.trim()))
}
