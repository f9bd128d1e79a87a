"""What an arm would achieve on a path: the logarithms that live flows are compared with.

For the arm that drives a flow from a state on, over the horizon:

- `throughput`: ln(payload without lost bytes / largest delivery rate so far), both in Mbit/s;
- `delay`: ln(one-way delay / half of the smallest round trip so far), where the one-way delay is
  the mean round trip minus half of the smallest one.

The largest rate and the smallest round trip are features of the state, so that simulated and live
rows have the same meaning. The logarithm of an arm's power is the difference of the two.
"""

from __future__ import annotations

import numpy as np

from .rewards import LEAST
from .samples import Floats, Singles, States

KINDS = ("throughput", "delay")
"""The predicted kinds, in the order of the file."""
RATE_MAX = "rate_max_mbit_per_sec"
RTT_MIN = "rtt_min_ms"


def known(features: Singles, names: list[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The rows whose features have a largest rate and a smallest round trip."""
    rate_max, rtt_min_ms = (features[:, names.index(name)] for name in (RATE_MAX, RTT_MIN))
    # A comparison with NaN is false.
    return np.asarray((rate_max >= 0) & (rtt_min_ms > 0))


def of(
    features: Singles, names: list[str], throughput_mbit_per_sec: Floats, rtt_mean_ms: Floats
) -> dict[str, Floats]:
    """The values of outcomes, by kind; rows, or rows x arms, as the outcomes are.

    All rows must be `known`. Lost bytes must be subtracted from throughputs.
    """
    shape = (-1,) + (1,) * (throughput_mbit_per_sec.ndim - 1)
    rate_max = features[:, names.index(RATE_MAX)].astype(float).reshape(shape)
    half_ms = features[:, names.index(RTT_MIN)].astype(float).reshape(shape) / 2
    share = np.maximum(throughput_mbit_per_sec, LEAST) / np.maximum(rate_max, LEAST)
    delay_ms = np.maximum(rtt_mean_ms - half_ms, half_ms)
    return {"throughput": np.log(share), "delay": np.log(delay_ms / half_ms)}


def of_states(states: States, names: list[str]) -> tuple[States, dict[str, Floats]]:
    """Simulated states that have values, and the values: rows x arms."""
    usable = states.only(known(states.features, names))
    return usable, of(usable.features, names, usable.throughput, usable.rtt_ms)
