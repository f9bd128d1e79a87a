"""The paths on which the policy `tcp_rl` is trained, and what each of its steps is worth there.

All figures come from the simulator, and the states are those that the policy itself reads: each of
its decisions says what came of the step before.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import remuda

Array = Any

ARMS = (
    "cubic",
    "bbr",
    "bbr3",
    "c2tcp",
    "vegas",
    "illinois",
    "westwood",
    "copa",
    "vivace",
    "learned",
)
"""The arms that the policy picks from: the eight of the other policies, `vivace` and `learned`."""
STATES = ("throughput_bit_per_sec", "rtt_s", "rtt_min_s", "loss")
"""What the policy says of each step."""
SERIES_MS = 50.0
"""The interval of the series that rewards come from."""
FLOW_S = 20.0
"""How long the whole flows are that an arm takes over."""
OWD_PERCENT = 95
"""The reward divides throughput by the geometric mean of this percentile and of the mean of the
one-way delay. The paper has the percentile alone, and an arm that is best by it may have two thirds
of the best power by the mean."""


class Path(NamedTuple):
    """One path: a bottleneck with a drop-tail queue."""

    rate_mbit_per_sec: float
    rtt_ms: float
    loss_percent: float
    buffer_pkts: int | None = None
    """None: one product of bandwidth and delay."""


RATES = (1, 5, 10, 20, 50, 70, 100, 150, 200)
RTTS_MS = (10, 20, 40, 60, 80, 100, 150, 200)
LOSSES_PERCENT = (0, 1, 2, 10)


DRAWN_SEED = 288
"""Decides the drawn paths of the table."""


def table_paths(drawn: int) -> list[Path]:
    """The paper's paths, and drawn ones between them.

    They are the paper's 288, 144 of these with the buffer that its changing path has, and the drawn
    ones. Of these every other one loses nothing, and every third has that buffer.
    """
    grid = itertools.product(RATES, RTTS_MS, LOSSES_PERCENT)
    deep = itertools.product(RATES, RTTS_MS[::2], LOSSES_PERCENT)
    rng = np.random.default_rng(DRAWN_SEED)

    def even(low: float, high: float) -> float:
        """Logarithmically even."""
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def between(nth: int) -> Path:
        loss = 0.0 if nth % 2 else even(0.05, 10)
        rate, rtt_ms = even(RATES[0], RATES[-1]), even(RTTS_MS[0], RTTS_MS[-1])
        return Path(rate, rtt_ms, loss, None if nth % 3 else 200)

    return [
        *(Path(*it) for it in grid),
        *(Path(*it, 200) for it in deep),
        *(between(nth) for nth in range(drawn)),
    ]


def scenario(phases: Sequence[Path], phase_s: float) -> dict[str, Any]:
    """A flow of the policy over a path that changes after each phase; the buffer stays."""
    first = phases[0]
    starts = [phase_s * at for at in range(1, len(phases))]
    later = list(zip(starts, phases[1:], strict=True))
    delays = [{"at_s": at, "delay_ms": it.rtt_ms / 2} for at, it in later]
    rates = [{"at_s": at, "rate_mbit_per_sec": float(it.rate_mbit_per_sec)} for at, it in later]
    losses = [{"at_s": at, "loss_percent": float(it.loss_percent)} for at, it in later]
    limit = (
        {"limit_bdp": 1.0} if first.buffer_pkts is None else {"limit_packets": first.buffer_pkts}
    )
    up: dict[str, Any] = {"delay_ms": first.rtt_ms / 2}
    down: dict[str, Any] = {
        "rate_mbit_per_sec": float(first.rate_mbit_per_sec),
        "delay_ms": first.rtt_ms / 2,
        "loss_percent": float(first.loss_percent),
        "queue": {"kind": "droptail", **limit},
    }
    if later:
        up["delay_steps"] = delays
        down |= {"rate_steps": rates, "delay_steps": delays, "loss_steps": losses}
    return {
        "duration_s": phase_s * len(phases),
        "sample_ms": SERIES_MS,
        "links": {"down": down, "up": up},
        "flows": [{"driver": "tcp_rl"}],
    }


class Step(NamedTuple):
    """One step of a flow."""

    end_s: float
    phase: int
    """The phase in which the step ends."""
    is_mixed: bool
    """The path has changed within the step."""
    arm: int
    """The arm that made it; its place in `ARMS`."""
    to: int
    """The arm of the next step."""
    picks: bool
    """The actor has picked at its end; otherwise the arm stays without being asked."""
    settles: bool
    """The flow keeps the arm until the path changes."""
    state: tuple[float, ...]
    """The values of `STATES`."""
    throughput_log: float
    """ln of bit/s."""
    one_way_log: float
    """ln of the geometric mean of mean and percentile of the one-way delay in ms."""


def delay_log(mean_ms: float, percentile_ms: float) -> float:
    """The delay of the reward: ln of the geometric mean of both."""
    return float(np.log(mean_ms) + np.log(percentile_ms)) / 2


def steps(result: remuda.Result, phases: Sequence[Path], phase_s: float) -> list[Step]:
    """The steps of the flow of `scenario`."""
    table = result.decisions
    rows = zip(*(table[name] for name in ("t_s", "arm", "to", "why", "features")), strict=True)
    series = result.flow_samples
    at_s, delivered = np.asarray(series["t_s"]), np.asarray(series["delivered_bytes"], float)
    links = result.link_samples
    # Links are in the order of their names: `down` is the first.
    down = np.asarray(links["link"]) == 0
    queue_at, queue = np.asarray(links["t_s"])[down], np.asarray(links["queue_bytes"])[down]
    phase_of = np.minimum((queue_at / phase_s).astype(int), len(phases) - 1)
    rates = np.array([it.rate_mbit_per_sec for it in phases])[phase_of]
    half_ms = np.array([it.rtt_ms / 2 for it in phases])[phase_of]
    one_way_ms = half_ms + queue * 8 / rates / 1e3
    found, begin = [], 0.0
    for end, arm, to, why, text in rows:
        facts = json.loads(text)
        if any(name not in facts for name in STATES) or arm not in ARMS or to not in ARMS:
            continue
        within = (queue_at > begin) & (queue_at <= end)
        if not within.any() or end - begin < 0.3:
            continue
        bits = 8 * float(np.diff(np.interp([begin, end], at_s, delivered))[0]) / (end - begin)
        phase = min(int(end / phase_s), len(phases) - 1)
        step = Step(
            end_s=float(end),
            phase=phase,
            is_mixed=int(begin / phase_s) != int(end / phase_s),
            arm=ARMS.index(arm),
            to=ARMS.index(to),
            picks="actor picks" in why,
            settles=why.startswith("settles"),
            state=tuple(float(facts[name]) for name in STATES),
            throughput_log=float(np.log(max(bits, 1e3))),
            one_way_log=delay_log(
                one_way_ms[within].mean(), np.percentile(one_way_ms[within], OWD_PERCENT)
            ),
        )
        found.append(step)
        begin = float(end)
    return found


def whole(result: remuda.Result, arm: int) -> Step:
    """A whole run as one step: 20 round trips may last longer where an arm fills a deep buffer."""
    row = {name: result.flows[name][0] for name in result.flows.column_names}
    rate = float(row["goodput_mbit_per_sec"]) * 1e6
    rtts_s = (float(row["rtt_mean_ms"]) / 1e3, float(row["rtt_min_ms"]) / 1e3)
    loss = float(row["lost_pkts"]) / max(float(row["sent_pkts"]), 1)
    return Step(
        end_s=result.duration_s,
        phase=0,
        is_mixed=False,
        arm=arm,
        to=arm,
        picks=False,
        settles=False,
        state=(rate, *rtts_s, loss),
        throughput_log=float(np.log(max(rate, 1e3))),
        one_way_log=delay_log(row["one_way_mean_ms"], row["one_way_p95_ms"]),
    )


class Table(NamedTuple):
    """Runs on each path. Axes: the path, the arm, the run; the first three have the step, too."""

    states: Array
    """Of each arm alone. The first step has slow start. The last axis has `STATES`."""
    throughput_log: Array
    one_way_log: Array
    taken_throughput_log: Array
    """Of whole flows that begin with the first arm, and that the arm takes over after its first
    step."""
    taken_one_way_log: Array

    def settled(self, log: Array) -> Array:
        """The mean over the runs, and over their steps after the first; for each path and arm."""
        return log[:, :, :, 1:].mean((-1, -2))


def tabulated(
    paths: Sequence[Path], runs: int, count: int, seed: int, first: str, step_s: float = 5.0
) -> Table:
    """Runs each arm on each path, so many times: alone for `count` steps, and after `first`."""
    seconds = (count + 1) * step_s
    of_paths = [path for path in paths for _ in range(runs)]
    seeds = [seed + run for _ in paths for run in range(runs)]
    scenarios = [scenario([path], seconds) for path in of_paths]
    alone: list[list[list[Step]]] = []
    for arm in ARMS:
        config = f'[policy.tcp_rl]\nfirst = "{arm}"\narms = ["{arm}"]\ndetector = "none"\n'
        results = remuda.run_many(scenarios, seeds, config=config)
        both = zip(of_paths, results, strict=True)
        found = [steps(it, [path], seconds) or [whole(it, ARMS.index(arm))] for path, it in both]
        # A step is at least 20 round trips, so that some runs have fewer: the last is repeated.
        alone.append([(of_run + [of_run[-1]] * count)[:count] for of_run in found])
    taken: list[list[Step]] = []
    for place, arm in enumerate(ARMS):
        whole_flows = []
        for path, of_first in zip(of_paths, alone[ARMS.index(first)], strict=True):
            table = scenario([path], FLOW_S) | {"sample_ms": 0.0}
            table["flows"] = [{"driver": first}]
            if arm != first:
                table["flows"][0]["switches"] = [{"at_s": of_first[0].end_s, "to": arm}]
            whole_flows.append(table)
        taken.append([whole(it, place) for it in remuda.run_many(whole_flows, seeds)])

    def column(rows: Any, name: str) -> Array:  # noqa: ANN401
        """An attribute of all steps; the path is the first axis."""
        values = np.array([[read(row, name) for row in of_arm] for of_arm in rows], np.float32)
        return values.reshape(len(ARMS), len(paths), runs, *values.shape[2:]).swapaxes(0, 1)

    def read(row: Any, name: str) -> Any:  # noqa: ANN401
        return getattr(row, name) if isinstance(row, Step) else [getattr(it, name) for it in row]

    names = ("throughput_log", "one_way_log")
    return Table(
        column(alone, "state"),
        *(column(alone, name) for name in names),
        *(column(taken, name) for name in names),
    )
