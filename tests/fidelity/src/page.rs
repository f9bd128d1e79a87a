//! docs/fidelity.md: what the figures mean, the figures, and the reasons where a bound is missed.

use std::path::Path;

const HEAD: &str = "\
# Fidelity

Does an arm under the agent do what the kernel's own algorithm of that name does? `make fidelity`
writes this page (root, some 45 minutes): reno, cubic and bbr, each on an emulated path of 20 ms
each way, one flow and one run at a time. Goodput counts the flow's whole life; the queueing delay
is the 95th percentile over the packets at the bottleneck, as the link itself saw it. Ratios are
ours to the kernel's own of the same round, their median and spread. *kernel's again* is the same
ratio of a second run of the kernel's own in that round: how far it is from itself.
";

const REASONS: &str = "\
## Where a bound is missed, and why

**bbr, the queueing delay.** A single BBR flow either keeps its queue empty between probes, or a
queue stands for seconds, as its filter holds a bandwidth sample that is a few per cent too large.
Such samples come of a host that is late: what that is on the machine that measured this, and how
the simulator does the same as soon as its ACKs are held up, is in
[sim-to-real.md](sim-to-real.md). It happens to the kernel's own as to ours, so a cell is a draw of
either side's lot: see the column *kernel's again*, where both sides are the same code. Five more
rounds of 96 Mbit/s and 4 BDP had ours at 0.76 (0.58–3.68) of the kernel's own, and the kernel's own
at 1.24 (0.62–4.50) of itself: at bbr's queue the bound is closer than this machine can tell.

**reno and cubic at 96 Mbit/s with loss.** Slow start fills the queue for the first second, and at
a loss of 0.01 % the window never does again: all that a run of 30 s has in its queue is this
second, 3 to 8 % of its packets, and the 95th percentile lies on its falling edge. Four times as
long (`--seconds 120 --arms reno,cubic --rates 96 --buffers loss`), it has left that edge.

**What CCP-style control cannot match.** An arm answers by report, four (reno, cubic) to sixteen
(bbr) times a round trip, where the kernel's own answers each ACK; and cubic leaves slow start by
HyStart++ (RFC 9406), where the kernel's HyStart often does not leave it: hence its larger number
of retransmissions.
";

/// Writes the page around what was measured.
pub fn write(path: &Path, measured: &str) -> std::io::Result<()> {
    std::fs::write(path, format!("{HEAD}\n{}\n\n{REASONS}", measured.trim()))
}
