"""The two networks of the policy `tcp_rl` in JAX, and the files that they are written to.

selector/src/tcp_rl_policy evaluates the same networks.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from remuda.training import export
from remuda.training.tcp_rl_steps import ARMS

if TYPE_CHECKING:
    from remuda.training.tcp_rl import Settings

Array = Any
Params = dict[str, Array]

KIND, CHANGE_KIND = "tcp_rl", "tcp_rl_change"
INPUTS = ("throughput", "rtt", "loss", "throughput_log", "rtt_log", "rtt_min_log")
"""What both networks read of a state; selector/src/tcp_rl_policy/state.rs computes the same."""
WANTS = ("want_throughput", "want_delay")
OFFSETS = {"throughput_log": 16.0, "rtt_log": -2.5, "rtt_min_log": -3.0}
"""An input is `(value - offset) * scale`; without an entry the offset is 0."""
SCALES = {"throughput": 1e-8, "loss": 10.0, "throughput_log": 0.6}
"""Without an entry the scale is 1. Throughput is in the paper's unit."""
ACTOR_LAYERS = ("first", "second", "memory", "last", "policy")
CHANGE_LAYERS = ("first", "second", "changed")
CHECKS = 1_000
"""How many evaluations the Rust evaluator is compared with JAX in."""


def dense(rng: np.random.Generator, rows: int, columns: int, gain: float = 1.0) -> Array:
    """Glorot's random weights."""
    bound = gain * np.sqrt(6 / (rows + columns))
    return rng.uniform(-bound, bound, (rows, columns)).astype(np.float32)


def first_params(settings: Settings) -> tuple[Params, Params]:
    """The untrained actor with its critic, and the untrained network that tells changes."""
    rng, width = np.random.default_rng(settings.seed), settings.width
    inputs = len(INPUTS) + len(WANTS) + len(ARMS)
    actor: Params = {
        "first.weight": dense(rng, inputs, width),
        "second.weight": dense(rng, width, width),
        "memory.input_weight": dense(rng, width, 4 * width),
        "memory.hidden_weight": dense(rng, width, 4 * width),
        "last.weight": dense(rng, width, width),
        "policy.weight": dense(rng, width, len(ARMS), 0.1),
        "value.weight": dense(rng, width, 1, 0.1),
    }
    change: Params = {
        "first.weight": dense(rng, 2 * len(INPUTS) + len(ARMS), width),
        "second.weight": dense(rng, width, width),
        "changed.weight": dense(rng, width, 1, 0.1),
    }
    for params in (actor, change):
        for name in list(params):
            zeros = np.zeros(params[name].shape[1], np.float32)
            params[name.replace("weight", "bias")] = zeros
    return actor, change


def layer(params: Params, name: str, inputs: Array) -> Array:
    """A dense layer without its activation."""
    return inputs @ params[f"{name}.weight"] + params[f"{name}.bias"]


def lstm(params: Params, inputs: Array, memory: tuple[Array, Array]) -> tuple[Array, Array]:
    """One step of the LSTM; PyTorch's form, gates in the order input, forget, cell, output."""
    hidden, cell = memory
    gates = inputs @ params["memory.input_weight"] + params["memory.input_bias"]
    gates += hidden @ params["memory.hidden_weight"] + params["memory.hidden_bias"]
    write, keep, new, show = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
    return jax.nn.sigmoid(show) * jnp.tanh(cell), cell


def actor(
    params: Params, inputs: Array, memory: tuple[Array, Array]
) -> tuple[Array, Array, tuple[Array, Array]]:
    """The logarithms of the arms' probabilities, the value, and the next memory."""
    inside = jnp.tanh(layer(params, "first", inputs))
    inside = jnp.tanh(layer(params, "second", inside))
    memory = lstm(params, inside, memory)
    last = jnp.tanh(layer(params, "last", memory[0]))
    logs = jax.nn.log_softmax(layer(params, "policy", last))
    return logs, layer(params, "value", last)[..., 0], memory


def change_logit(params: Params, inputs: Array) -> Array:
    """The logit of the probability that the path has changed."""
    inside = jnp.tanh(layer(params, "first", inputs))
    inside = jnp.tanh(layer(params, "second", inside))
    return layer(params, "changed", inside)[..., 0]


def no_memory(settings: Settings, count: int) -> tuple[Array, Array]:
    """The memory of flows that start."""
    zeros = jnp.zeros((count, settings.width))
    return zeros, zeros


def of_states(states: Array) -> Array:
    """The values of `INPUTS`, from those of `tcp_rl_steps.STATES`."""
    rate, rtt, rtt_min, loss = (states[..., at] for at in range(4))
    logs = (jnp.log(jnp.maximum(rate, 1e3)), jnp.log(jnp.maximum(rtt, 1e-6)))
    return jnp.stack([rate, rtt, loss, *logs, jnp.log(jnp.maximum(rtt_min, 1e-6))], -1)


def scaled(values: Array) -> Array:
    """`INPUTS` as the first layers read them."""
    offsets = np.array([OFFSETS.get(name, 0.0) for name in INPUTS], np.float32)
    scales = np.array([SCALES.get(name, 1.0) for name in INPUTS], np.float32)
    return (values - offsets) * scales


def actor_inputs(states: Array, wants: Array, arms: Array) -> Array:
    """All that the actor reads, scaled."""
    return jnp.concatenate([scaled(of_states(states)), wants, jax.nn.one_hot(arms, len(ARMS))], -1)


def change_inputs(last: Array, now: Array, arms: Array) -> Array:
    """All that the network that tells changes reads, scaled."""
    both = [scaled(of_states(last)), scaled(of_states(now))]
    return jnp.concatenate([*both, jax.nn.one_hot(arms, len(ARMS))], -1)


def ranges(seen: Array) -> list[tuple[float, float]]:
    """The range of each of `INPUTS` in these states, with a margin for paths a little beyond."""
    values = np.asarray(of_states(seen))
    low, high = values.min(0), values.max(0)
    logs = [name.endswith("_log") for name in INPUTS]
    # A log may be half beyond; others start at 0 and end as their logs do.
    low = np.where(logs, low - 0.7, 0)
    high = np.where(logs, high + 0.7, high * 2)
    return [(round(float(a), 6), round(float(b), 6)) for a, b in zip(low, high, strict=True)]


def state_inputs(seen: Array, prefix: str = "") -> list[export.Input]:
    """The inputs of one state, with their ranges in training."""
    named = zip(INPUTS, ranges(seen), strict=True)
    return [
        export.Input(prefix + name, low, high, 1, OFFSETS.get(name, 0.0), SCALES.get(name, 1.0))
        for name, (low, high) in named
    ]


def layers(names: tuple[str, ...], inputs: int, widths: list[int], last: str) -> list[export.Layer]:
    """Layers one after the other; `memory` is the LSTM."""
    found, begin, end = [], 0, inputs
    for name, width in zip(names, widths, strict=True):
        kind = "lstm" if name == "memory" else "dense"
        activation = last if name == names[-1] else "none" if name == "memory" else "tanh"
        shape = {"type": kind, "outputs": width}
        found.append(export.Layer(name, shape, (begin, end), activation))
        begin, end = end, end + width
    return found


def write(
    actor_file: Path,
    change_file: Path,
    nets: tuple[Params, Params],
    seen: Array,
    settings: Settings,
    scores: dict[str, Any],
) -> None:
    """Writes both networks with their cards. `seen` are the states of the training."""
    of_arms = [export.Input(f"arm_{arm}", 0, 1) for arm in ARMS]
    width = settings.width
    about: dict[str, Any] = {
        "data": "Simulated paths of 1 to 200 Mbit/s, 10 to 200 ms and 0 to 10 % random loss, "
        "with drop-tail buffers of one product of bandwidth and delay or of 200 packets; and "
        "environments of many kinds of paths, some with neighbours.",
        "families": ["static", "changing", "all of emulation/samples"],
        "seed": settings.seed,
        "hyperparameters": dataclasses.asdict(settings),
        "scores": scores,
        "limits": [
            "Outside the ranges of the inputs the flow keeps its arm.",
            "What a flow that shares its path earned by its arm is known of the training's "
            "neighbours only.",
        ],
    }
    inputs = [*state_inputs(seen), *(export.Input(name, 0, 1) for name in WANTS), *of_arms]
    widths = [width] * 4 + [len(ARMS)]
    picks = layers(ACTOR_LAYERS, len(inputs), widths, "softmax")
    card = export.Card(KIND, KIND, inputs, picks, list(ARMS), **about)
    export.write(actor_file, kept(nets[0], ACTOR_LAYERS), card)
    inputs = [*state_inputs(seen, "last_"), *state_inputs(seen), *of_arms]
    tells = layers(CHANGE_LAYERS, len(inputs), [width, width, 1], "sigmoid")
    card = export.Card(CHANGE_KIND, CHANGE_KIND, inputs, tells, ["changed"], **about)
    export.write(change_file, kept(nets[1], CHANGE_LAYERS), card)


def kept(params: Params, names: tuple[str, ...]) -> Params:
    """The tensors of these layers; the critic serves the training only."""
    return {name: np.asarray(it) for name, it in params.items() if name.split(".")[0] in names}


def checks(weights: Path) -> Array:
    """What JAX computes with an exported actor for a flow of `CHECKS` steps: rows x arms.

    The inputs lie in the ranges of the card.
    """
    card = json.loads(weights.with_suffix(".json").read_text())
    of = {
        key: np.array([it[key] for it in card["inputs"]], np.float32)
        for key in ("low", "high", "offset", "scale")
    }
    params = safetensors.numpy.load_file(weights)
    params |= {
        "value.weight": np.zeros((params["last.bias"].shape[0], 1)),
        "value.bias": np.zeros(1),
    }
    inputs = (export.drawn(of["low"], of["high"], CHECKS) - of["offset"]) * of["scale"]

    def step(memory: tuple[Array, Array], row: Array) -> tuple[Any, Array]:
        logs, _, memory = actor(params, row[None], memory)
        return memory, jnp.exp(logs[0])

    zeros = jnp.zeros((1, params["last.bias"].shape[0]))
    return np.asarray(jax.lax.scan(step, (zeros, zeros), jnp.asarray(inputs))[1])
