"""Trains LingBo's decision network by DAgger: `python -P -m remuda.training.lingbo --out FILE`.

"Meet challenges of RTT Jitter, A Hybrid Internet Congestion Control Algorithm", sections 4.2 to
4.5. The network imitates an expert that knows the path. Each iteration simulates paths with the
network of the last one in control, asks the expert what it would have done in each state, and
trains on all states so far (Ross et al., "A Reduction of Imitation Learning and Structured
Prediction to No-Regret Online Learning", AISTATS 2011).

The expert's window is equation 1, corrected: the rate of the path times (mean RTT_min + alpha
standard deviations), over the share of packets that is not lost at random.

Inputs have no unit: rates are in windows per RTT_min, delays in RTT_min. So the network is the same
for all rates. `algorithms/src/lingbo/state.rs` computes the same inputs from reports.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from safetensors.numpy import load_file

from . import atomic, export

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Params = dict[str, Any]

HISTORY = 8
"""How many decisions back the network sees (section 4.4)."""
SIGNALS = ("queue", "send_rate", "delivery_rate", "loss", "cwnd", "interval")
"""The signals with a history (equation 2)."""
SIGNAL_RANGES = ((-1.0, 12.0), (0.0, 8.0), (0.0, 8.0), (0.0, 1.0), (-6.0, 6.0), (-2.0, 3.0))
SCALARS = ("rtt_min", "rtt_min_std", "alpha")
SCALAR_RANGES = ((3.6, 9.3), (0.0, 0.35), (0.0, 3.0))
"""log2 of milliseconds; shares of the mean; section 4.3."""
CHANNELS = 64
KERNEL = 4
STEPS = HISTORY - KERNEL + 1
INPUTS = len(SIGNALS) * HISTORY + len(SCALARS)
TICKS = 32
"""Ticks of the simulation between two decisions."""
IDLE_TICKS = 600
"""Ticks in which the RTT of the idle path is measured."""
RING = 400
"""Ticks that a packet may take from the bottleneck to its ACK."""
CWND_MIN, CWND_MAX = 2.0, 20_000.0
RATE_MIN, RATE_MAX = 8.3, 25_000.0
"""0.1 to 300 Mbit/s, in packets of 1500 bytes per second (table 1)."""
RTT_S_MIN = 0.0125
"""A shorter path looks to the network like this one: its state.rs bounds the inputs."""
CHECKS = 10_000
"""How many evaluations the evaluator in Rust must repeat."""
STD_MAX = 0.3
"""The largest standard deviation of RTT_min, as a share of its mean (table 1)."""


@dataclass
class Args:
    """The settings. All of them are written into the card."""

    seed: int = 1
    """The seed of every draw: equal seeds give equal files on a CPU."""
    iterations: int = 24
    """Iterations of DAgger."""
    paths: int = 512
    """Paths simulated in an iteration."""
    decisions: int = 100
    """Decisions on each path."""
    epochs: int = 2
    """Passes over the sampled states in an iteration."""
    samples: int = 300_000
    """The most states that an iteration trains on, drawn from all so far."""
    states_max: int = 1_000_000
    """The most states kept; the oldest go first."""
    batch: int = 512
    """States in a step of gradient descent."""
    learning_rate: float = 1e-3
    """Adam's first learning rate. It falls as a cosine to `learning_rate_end`."""
    learning_rate_end: float = 1e-5
    expert_share: float = 0.5
    """The share of paths that the expert controls in the first iteration; it halves each time."""
    noise: float = 0.05
    """Standard deviation of the noise on actions while states are collected."""
    shocks: float = 0.04
    """The share of decisions before which a window is drawn anew while states are collected: 0.1 to
    12 BDPs, as slow start or another algorithm may leave it."""


SMOKE = {"iterations": 2, "paths": 64, "decisions": 30, "epochs": 1, "samples": 2_000}
"""Settings for a test that training works: some seconds."""


def log_uniform(rng: np.random.Generator, low: float, high: float, n: int) -> Floats:
    """Numbers whose logarithms are uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), n))


class Paths:
    """Many simulated paths with one sender each (section 4.2), as arrays.

    A tick moves a real number of packets. The bottleneck and its drop-tail queue come first, then
    a delay that changes from tick to tick; packets stay in order. A lost packet is known to be lost
    when the packet after it is acknowledged.
    """

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        """Draws `n` paths from the ranges of table 1."""
        self.rng, self.n = rng, n
        self.rtt_s = log_uniform(rng, RTT_S_MIN, 0.4, n)
        wired = rng.random(n) < 0.3
        self.std = np.where(wired, rng.uniform(0, 0.02, n), rng.uniform(0, STD_MAX, n))
        self.dt = np.maximum(0.1, self.rtt_s / 2) / TICKS
        tau_s = log_uniform(rng, 0.005, 3.0, n)
        self.correlation = np.where(rng.random(n) < 0.4, 0.0, np.exp(-self.dt / tau_s))
        bdp = log_uniform(rng, 2.0, 2_000.0, n)
        self.rate = np.clip(bdp / self.rtt_s, RATE_MIN, RATE_MAX)
        self.loss = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0, 0.3, n))
        self.buffer = log_uniform(rng, 8.0, 2_000.0, n)
        self.alpha = rng.uniform(0, 3, n)
        # How often the rate and RTT_min change, in a second.
        self.rate_changes = np.where(rng.random(n) < 0.6, 0.0, log_uniform(rng, 0.1, 2.0, n))
        self.rtt_changes = np.where(rng.random(n) < 0.6, 0.0, log_uniform(rng, 0.05, 0.3, n))
        self.rtt_now, self.rate_now = self.rtt_s.copy(), self.rate.copy()
        self.cwnd = np.clip(self.rate * self.rtt_s * log_uniform(rng, 0.1, 6.0, n), CWND_MIN, 1e9)
        self.in_flight, self.queue = np.zeros(n), np.zeros(n)
        self.acks, self.losses, self.rtts = (np.zeros((n, RING)) for _ in range(3))
        self.last_at = np.zeros(n)
        self.tick = 0
        self.jitter = rng.standard_normal(n)
        self.lift, self.spread = self.idle()
        # What perception has found: it is imprecise, and notices a change late.
        self.seen_rtt = self.rtt_s * self.lift * np.exp(0.04 * rng.standard_normal(n))
        self.seen_std = np.clip(
            self.spread / self.lift * np.exp(0.15 * rng.standard_normal(n)), 0, STD_MAX
        )
        self.seen_at = np.full(n, np.inf)
        self.srtt = self.seen_rtt.copy()
        self.history = np.zeros((n, len(SIGNALS), HISTORY))
        self.cwnds = np.repeat(self.cwnd[:, None], HISTORY, axis=1)
        for _ in range(HISTORY):
            self.observe(*self.measure())

    def idle(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the RTT without a queue, in drawn means.

        Both differ from what was drawn, as late packets hold back those behind them.
        """
        jitter, last = self.rng.standard_normal(self.n), np.zeros(self.n)
        rtts = []
        c = self.correlation
        for tick in range(IDLE_TICKS):
            fresh = np.clip(self.rng.standard_normal(self.n), -3, 3)
            jitter = c * jitter + np.sqrt(1 - c * c) * fresh
            delay = np.maximum(self.rtt_s * (1 + self.std * jitter), 0) / self.dt
            last = np.maximum(last, tick + delay)
            rtts.append((last - tick) * self.dt / self.rtt_s)
        return np.mean(rtts, axis=0), np.std(rtts, axis=0)

    def change(self) -> None:
        """Changes rates and delays at random, and lets perception notice earlier changes."""
        rng, n, span = self.rng, self.n, TICKS * self.dt
        now = self.tick * self.dt
        moves = rng.random(n) < self.rate_changes * span
        factor = np.exp(rng.uniform(-0.7, 0.7, n))
        low, high = np.maximum(self.rate / 4, RATE_MIN), np.minimum(self.rate * 2, RATE_MAX)
        moved = np.clip(self.rate_now * factor, low, np.maximum(low, high))
        self.rate_now = np.where(moves, moved, self.rate_now)
        moves = rng.random(n) < self.rtt_changes * span
        moved = self.rtt_s * rng.uniform(0.6, 1.4, n)
        self.rtt_now = np.where(moves, moved, self.rtt_now)
        # A shorter path shows at once, a longer one only when perception runs again.
        late_s = np.where(self.rtt_now < self.seen_rtt, 0.5, rng.uniform(1.0, 12.0, n))
        self.seen_at = np.where(moves, now + late_s, self.seen_at)
        notices = now >= self.seen_at
        seen = self.rtt_now * self.lift * np.exp(0.04 * rng.standard_normal(n))
        self.seen_rtt = np.where(notices, seen, self.seen_rtt)
        self.seen_at = np.where(notices, np.inf, self.seen_at)

    def measure(self) -> tuple[Floats, Floats, Floats]:
        """Runs until the next decision: packets acknowledged and lost, and the mean RTT."""
        self.change()
        acked, lost, rtt_sum = np.zeros(self.n), np.zeros(self.n), np.zeros(self.n)
        rows = np.arange(self.n)
        for _ in range(TICKS):
            slot = self.tick % RING
            got, gone = self.acks[:, slot].copy(), self.losses[:, slot].copy()
            rtt_sum += self.rtts[:, slot]
            for ring in (self.acks, self.losses, self.rtts):
                ring[:, slot] = 0
            acked += got
            lost += gone
            self.in_flight -= got + gone
            sent = np.maximum(0, self.cwnd - self.in_flight)
            self.in_flight += sent
            noise = np.sqrt(self.loss * (1 - self.loss) / np.maximum(sent, 1))
            share = np.clip(self.loss + noise * self.rng.standard_normal(self.n), 0, 1)
            share = np.where(self.loss > 0, share, 0)
            self.queue += sent * (1 - share)
            served = np.minimum(self.queue, self.rate_now * self.dt)
            self.queue -= served
            over = np.maximum(0, self.queue - self.buffer)
            self.queue -= over
            wait_s = self.queue / self.rate_now
            c = self.correlation
            fresh = np.clip(self.rng.standard_normal(self.n), -3, 3)
            self.jitter = c * self.jitter + np.sqrt(1 - c * c) * fresh
            delay_s = np.maximum(self.rtt_now * (1 + self.std * self.jitter), 0)
            at = np.maximum(self.last_at, self.tick + np.maximum(delay_s / self.dt, 1))
            at = np.minimum(at, self.tick + RING - 1)
            self.last_at = at
            slots = at.astype(np.int64) % RING
            rtt_s = (at - self.tick) * self.dt + wait_s
            self.acks[rows, slots] += served
            self.rtts[rows, slots] += served * rtt_s
            self.losses[rows, slots] += sent * share + over
            self.tick += 1
        rtt_s = np.where(acked > 0, rtt_sum / np.maximum(acked, 1e-9), self.srtt)
        return acked, lost, rtt_s

    def observe(self, acked: Floats, lost: Floats, rtt_s: Floats) -> None:
        """Adds what was measured to the history."""
        self.srtt = rtt_s
        span = TICKS * self.dt
        signals = (
            rtt_s / self.seen_rtt - 1,
            (acked + lost) / span,
            acked / span,
            lost / np.maximum(acked + lost, 1e-9),
            np.zeros(self.n),
            np.log2(span / self.seen_rtt),
        )
        self.history = np.roll(self.history, -1, axis=2)
        self.history[:, :, -1] = np.stack(signals, axis=1)
        self.cwnds = np.roll(self.cwnds, -1, axis=1)
        self.cwnds[:, -1] = self.cwnd

    def inputs(self) -> Singles:
        """The network's inputs, in the order of the card."""
        history = self.history.copy()
        # Rates in windows of now per RTT_min.
        history[:, 1:3] *= (self.seen_rtt / self.cwnd)[:, None, None]
        history[:, 4] = np.log2(self.cwnds / self.cwnd[:, None])
        for at, (low, high) in enumerate(SIGNAL_RANGES):
            np.clip(history[:, at], low, high, out=history[:, at])
        scalars = np.stack([np.log2(self.seen_rtt * 1e3), self.seen_std, self.alpha], axis=1)
        for at, (low, high) in enumerate(SCALAR_RANGES):
            np.clip(scalars[:, at], low, high, out=scalars[:, at])
        return np.hstack([history.reshape(self.n, -1), scalars]).astype(np.float32)

    def expert(self) -> Singles:
        """What equation 1 says: by which share the window should change."""
        target_s = self.rtt_now * (self.lift + self.alpha * self.spread)
        window = self.rate_now * target_s / (1 - self.loss)
        change: Singles = np.clip(window / self.cwnd - 1, -0.99, 0.99).astype(np.float32)
        return change

    def act(self, action: Floats, shocks: float = 0.0) -> None:
        """Changes the windows, a share of them to any size, and runs until the next decision."""
        self.cwnd = np.clip(self.cwnd * (1 + action), CWND_MIN, CWND_MAX)
        if shocks > 0:
            drawn = self.rate_now * self.rtt_now * log_uniform(self.rng, 0.1, 12.0, self.n)
            moves = self.rng.random(self.n) < shocks
            self.cwnd = np.where(moves, np.clip(drawn, CWND_MIN, CWND_MAX), self.cwnd)
        self.observe(*self.measure())


def initial(key: jax.Array) -> Params:
    """He's initial weights; the last layer starts near zero."""
    keys = iter(jax.random.split(key, len(SIGNALS) + len(SCALARS) + 2))

    def of(shape: tuple[int, ...], gain: float = 2.0) -> dict[str, jax.Array]:
        fan_in = int(np.prod(shape[:-1]))
        weight = jax.random.normal(next(keys), shape) * np.sqrt(gain / fan_in)
        return {"weight": weight, "bias": jnp.zeros(shape[-1])}

    params = {name: of((KERNEL, 1, CHANNELS)) for name in SIGNALS}
    params |= {name: of((1, CHANNELS)) for name in SCALARS}
    merged = len(SIGNALS) * STEPS * CHANNELS + len(SCALARS) * CHANNELS
    params["merge"] = of((merged, CHANNELS))
    params["action"] = of((CHANNELS, 1), gain=0.01)
    return params


def forward(params: Params, inputs: jax.Array) -> jax.Array:
    """The network of figure 8: an action in (-1, 1) for each row of inputs."""
    parts = []
    for at, name in enumerate(SIGNALS):
        series = inputs[:, at * HISTORY : (at + 1) * HISTORY]
        windows = jnp.stack([series[:, i : i + STEPS] for i in range(KERNEL)], axis=2)
        out = windows @ params[name]["weight"][:, 0] + params[name]["bias"]
        parts.append(jax.nn.relu(out).reshape(len(inputs), -1))
    for at, name in enumerate(SCALARS):
        column = inputs[:, len(SIGNALS) * HISTORY + at]
        parts.append(jax.nn.relu(column[:, None] @ params[name]["weight"] + params[name]["bias"]))
    merged = jnp.concatenate(parts, axis=1) @ params["merge"]["weight"] + params["merge"]["bias"]
    last = jax.nn.relu(merged) @ params["action"]["weight"] + params["action"]["bias"]
    return jnp.tanh(last[:, 0])


def loss_of(params: Params, inputs: jax.Array, wanted: jax.Array) -> jax.Array:
    """Equation 3."""
    return 0.25 * jnp.mean((forward(params, inputs) - wanted) ** 2)


def layers() -> list[export.Layer]:
    """The network as layers of a card."""
    out, tape = [], INPUTS
    for at, name in enumerate(SIGNALS):
        shape = {"type": "conv1d", "channels": 1, "outputs": CHANNELS, "kernel": KERNEL}
        reads = (at * HISTORY, (at + 1) * HISTORY)
        out.append(export.Layer(name, shape | {"padding": "valid"}, reads, "relu"))
        tape += STEPS * CHANNELS
    dense = {"type": "dense", "outputs": CHANNELS}
    for at, name in enumerate(SCALARS, start=len(SIGNALS) * HISTORY):
        out.append(export.Layer(name, dense, (at, at + 1), "relu"))
        tape += CHANNELS
    out.append(export.Layer("merge", dense, (INPUTS, tape), "relu"))
    last = (tape, tape + CHANNELS)
    out.append(export.Layer("action", {"type": "dense", "outputs": 1}, last, "tanh"))
    return out


def inputs() -> list[export.Input]:
    """The inputs of a card."""
    series = zip(SIGNALS, SIGNAL_RANGES, strict=True)
    scalars = zip(SCALARS, SCALAR_RANGES, strict=True)
    histories = [export.Input(name, low, high, HISTORY) for name, (low, high) in series]
    return histories + [export.Input(name, low, high) for name, (low, high) in scalars]


def collect(args: Args, params: Params, seed: int, expert_share: float) -> tuple[Singles, Singles]:
    """Simulates paths; returns the states, and what the expert would have done in each."""
    rng = np.random.default_rng([args.seed, seed])
    paths = Paths(rng, args.paths)
    by_expert = rng.random(args.paths) < expert_share
    states, wanted = [], []
    for _ in range(args.decisions):
        states.append(paths.inputs())
        wanted.append(paths.expert())
        action = np.where(by_expert, wanted[-1], np.asarray(policy(params, states[-1])))
        noise = args.noise * rng.standard_normal(args.paths)
        paths.act(np.clip(action + noise, -0.99, 0.99), args.shocks)
    return np.concatenate(states), np.concatenate(wanted)


policy = jax.jit(forward)


def scores(params: Params, args: Args, seed: int) -> dict[str, float]:
    """How the network does on paths of a seed that no training used."""
    paths = Paths(np.random.default_rng([args.seed, seed]), args.paths)
    used, queued, wanted = [], [], []
    error: list[float] = []
    for step in range(args.decisions):
        state, want = paths.inputs(), paths.expert()
        action = np.asarray(policy(params, state), float)
        paths.act(action)
        if step >= args.decisions // 5:
            error.append(float(np.mean((action - want) ** 2) / 4))
            rate = np.minimum(paths.history[:, 2, -1] / paths.rate_now, 1)
            used.append(rate)
            queued.append(np.maximum(paths.history[:, 0, -1], 0))
            wanted.append(paths.alpha * paths.spread)
    groups = {
        "all": np.ones(args.paths, bool),
        "fixed": (paths.rate_changes == 0) & (paths.rtt_changes == 0),
        "rate_changes": paths.rate_changes > 0,
        "rtt_changes": paths.rtt_changes > 0,
        "loss": paths.loss > 0,
        "wired": paths.std <= 0.02,
    }
    out = {"loss": float(np.mean(error))}
    for name, group in groups.items():
        out[f"{name}_utilisation"] = float(np.mean(np.stack(used)[:, group]))
        out[f"{name}_queue_rtts"] = float(np.mean(np.stack(queued)[:, group]))
        out[f"{name}_queue_rtts_wanted"] = float(np.mean(np.stack(wanted)[:, group]))
    return {name: round(value, 4) for name, value in out.items()}


def batches(args: Args, rng: np.random.Generator, count: int) -> Iterator[npt.NDArray[np.int64]]:
    """Indexes of the states of each step."""
    for _ in range(args.epochs):
        order = rng.permutation(count)[: args.samples]
        for at in range(0, len(order) - args.batch + 1, args.batch):
            yield order[at : at + args.batch]


def train(args: Args) -> tuple[Params, dict[str, float]]:
    """DAgger. Returns the network and its scores."""
    params = initial(jax.random.key(args.seed))
    steps = args.iterations * args.epochs * max(args.samples // args.batch, 1)
    end = args.learning_rate_end / args.learning_rate
    schedule = optax.cosine_decay_schedule(args.learning_rate, steps, end)
    adam = optax.adam(schedule)
    memory = adam.init(params)

    @jax.jit
    def step(params: Params, memory: Any, states: Any, wanted: Any) -> Any:  # noqa: ANN401
        loss, gradient = jax.value_and_grad(loss_of)(params, states, wanted)
        change, memory = adam.update(gradient, memory)
        return optax.apply_updates(params, change), memory, loss

    rng = np.random.default_rng(args.seed)
    states = np.zeros((0, INPUTS), np.float32)
    wanted = np.zeros(0, np.float32)
    for iteration in range(args.iterations):
        began = time.monotonic()
        new_states, new_wanted = collect(args, params, iteration, args.expert_share / 2**iteration)
        states = np.concatenate([states, new_states])[-args.states_max :]
        wanted = np.concatenate([wanted, new_wanted])[-args.states_max :]
        losses = []
        for batch in batches(args, rng, len(states)):
            params, memory, loss = step(params, memory, states[batch], wanted[batch])
            losses.append(loss)
        mean = float(np.mean(losses)) if losses else float("nan")
        took_s = time.monotonic() - began
        say(f"iteration {iteration}: {len(states)} states, loss {mean:.5f}, {took_s:.1f} s")
    return params, scores(params, args, 1_000_000)


def exported(path: Path) -> Params:
    """The parameters in a file of weights."""
    params: Params = {}
    for name, tensor in load_file(path).items():
        layer, part = name.split(".")
        params.setdefault(layer, {})[part] = tensor
    return params


def checks(path: Path) -> Singles:
    """What JAX computes with a file of weights for `CHECKS` inputs in the ranges of the card."""
    ranges = [(it.low, it.high) for it in inputs() for _ in range(it.count)]
    low, high = np.array(ranges, np.float32).T
    return np.asarray(policy(exported(path), export.drawn(low, high, CHECKS)))


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def save(path: Path, params: Params, args: Args, measured: dict[str, float]) -> None:
    """Writes the network and its card."""
    tensors = {
        f"{name}.{part}": np.asarray(it) for name, of in params.items() for part, it in of.items()
    }
    card = export.Card(
        name=path.stem,
        kind="lingbo",
        inputs=inputs(),
        layers=layers(),
        outputs=["action"],
        data=f"{args.iterations} iterations of {args.paths} simulated paths, one flow each",
        families=["fixed", "rate_changes", "rtt_changes", "loss", "wired", "jitter"],
        seed=args.seed,
        hyperparameters=asdict(args),
        scores=measured,
        limits=[
            "trained on paths of 0.1 to 300 Mbit/s, 2 to 400 ms, up to 30 % loss, one flow",
            "RTT_min has a standard deviation of at most 0.3 of its mean",
        ],
    )
    export.write(path, tensors, card)


def main() -> int:
    """Runs the command. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda train lingbo")
    parser.add_argument("--out", type=Path, required=True, help="file of the weights")
    parser.add_argument(
        "--expected", type=Path, help="train nothing: write what JAX computes with --out"
    )
    parser.add_argument("--smoke", action="store_true", help="a short training, as a test")
    for it in fields(Args):
        parser.add_argument(f"--{it.name.replace('_', '-')}", type=type(it.default), default=None)
    options = vars(parser.parse_args())
    given = {it.name: options[it.name] for it in fields(Args) if options[it.name] is not None}
    args = Args(**((SMOKE if options["smoke"] else {}) | given))
    try:
        if options["expected"]:
            atomic.write(options["expected"], checks(options["out"]).astype("<f4").tobytes())
            return 0
        params, measured = train(args)
        save(options["out"], params, args, measured)
    except (OSError, ValueError) as error:
        print(f"remuda train lingbo: {error}", file=sys.stderr)
        return 1
    for name, value in measured.items():
        print(f"{name:32} {value:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
