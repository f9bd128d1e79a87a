"""Trains the arm `learned`: `python -P -m remuda.training.ppo --out FILE.safetensors`.

Recurrent PPO (Schulman et al., arXiv 1707.06347) in one file, in the manner of cleanrl: a dense
layer, a gated recurrent unit and a dense layer map what a sender measures in a round trip to a
factor on its window, as in Orca (SIGCOMM 2020) and Astraea (EuroSys 2024). Several flows share a
bottleneck and all follow the network in training; the reward is the logarithm of the merit, whose
harm term pays for fair shares.

The same code runs on a CPU and on a GPU. On a CPU, the same settings give the same weights.

A training is a sequence of rounds. A round starts new episodes and ends with a checkpoint, so a
training that was stopped continues as if it had not been: run the same command again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import safetensors
import safetensors.numpy

from remuda.settings import Feature, features_of
from remuda.training import atomic, export, worlds

Array = Any
"""An array of numpy or JAX."""
Params = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a training. The log starts with them, and the card has them all."""

    seed: int = 3
    """Decides the first weights, every draw of environments and every random action. Of 2 and 3,
    this one was better on the development sets."""
    steps: int = 6_000_000
    """How many steps of all flows together to train for; a step is a round trip of a flow."""
    rows: int = 192
    """How many flows act at once, in all environments together; an even number."""
    rollout_steps: int = 64
    """How many steps each flow makes between two updates, and how far gradients go back in time."""
    round_updates: int = 20
    """How many updates a round has. Each round starts new episodes and ends with a checkpoint."""
    epochs: int = 3
    """How often an update uses each step."""
    minibatches: int = 4
    """How many parts each epoch is split into, by flow."""
    width: int = 64
    """The outputs of the dense layer and of the recurrent unit."""
    learning_rate: float = 6e-4
    """Adam's step at the start; it falls linearly to a tenth of it."""
    discount: float = 0.97
    """What a reward one step later counts: some 30 round trips matter."""
    trace: float = 0.95
    """Lambda of generalised advantage estimation."""
    clip: float = 0.2
    """How far an update may move the probability of an action, as a share."""
    entropy_weight: float = 1e-3
    """The weight of the entropy of actions, which keeps exploring."""
    spread_least: float = 0.2
    """Advantages are divided by their spread within a family; a spread below this share of that of
    all families counts as this."""
    value_weight: float = 0.5
    """The weight of the error of the value."""
    average_share: float = 0.01
    """What each update counts in the mean of the weights: some 100 updates matter."""
    gradient_norm: float = 0.5
    """Longer gradients are cut to this length."""
    deviation: float = 0.5
    """The standard deviation of actions at the start."""
    deviation_least: float = 0.14
    """The standard deviation of actions never falls below this."""
    reward_least: float = -6.0
    """A lower reward of a step counts as this: a blackout must not outweigh all other steps."""
    reward_scale: float = 0.1
    """What rewards are multiplied by, so that values are of the size of 1."""
    action_scale: float = 0.25
    """An action of 1 multiplies the window by 1 plus this."""
    added_pkts: float = 1.0
    """How many segments each step adds to the window beside the factor. With the same factors,
    flows that share a bottleneck then come to equal windows, as with additive increase."""
    episode_steps: int = 640
    """How long an episode is, in steps."""
    families: tuple[str, ...] = ()
    """The families of environments; all if empty."""
    without: tuple[str, ...] = ("selves", "beside")
    """Families to leave out. In trials beside other flows, the network took every queue for theirs,
    also that of a rate that had just fallen."""
    evaluations: int = 24
    """How many held-out episodes of each family the scores come from; it must be even."""


SMOKE = {
    "steps": 12_288,
    "rows": 24,
    "rollout_steps": 32,
    "round_updates": 4,
    "episode_steps": 64,
    "evaluations": 2,
}
"""The settings of a training that only shows that training works."""


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def first_params(settings: Settings, inputs: int) -> Params:
    """Random weights: Glorot's for the layers, small ones for the action."""
    width, rng = settings.width, np.random.default_rng(settings.seed)

    def zeros(count: int) -> Array:
        return np.zeros(count, np.float32)

    def dense(rows: int, columns: int, gain: float = 1.0) -> Array:
        bound = gain * np.sqrt(6 / (rows + columns))
        return rng.uniform(-bound, bound, (rows, columns)).astype(np.float32)

    return {
        "inside.weight": dense(inputs, width),
        "inside.bias": zeros(width),
        "memory.input_weight": dense(width, 3 * width),
        "memory.input_bias": zeros(3 * width),
        "memory.hidden_weight": dense(width, 3 * width),
        "memory.hidden_bias": zeros(3 * width),
        "action.weight": dense(width, 1, 0.01),
        "action.bias": zeros(1),
        "value_inside.weight": dense(width, width),
        "value_inside.bias": zeros(width),
        "value.weight": dense(width, 1),
        "value.bias": zeros(1),
        "log_deviation": np.full(1, np.log(settings.deviation), np.float32),
    }


def gru(params: Params, inputs: Array, hidden: Array) -> Array:
    """One step of the recurrent unit; PyTorch's form, gates in the order reset, update, new."""
    of_input = inputs @ params["memory.input_weight"] + params["memory.input_bias"]
    of_hidden = hidden @ params["memory.hidden_weight"] + params["memory.hidden_bias"]
    reset_in, update_in, new_in = jnp.split(of_input, 3, axis=-1)
    reset_hidden, update_hidden, new_hidden = jnp.split(of_hidden, 3, axis=-1)
    update = jax.nn.sigmoid(update_in + update_hidden)
    new = jnp.tanh(new_in + jax.nn.sigmoid(reset_in + reset_hidden) * new_hidden)
    return (1 - update) * new + update * hidden


def policy(params: Params, inputs: Array, hidden: Array) -> tuple[Array, Array]:
    """The mean action and the next hidden state, from scaled inputs."""
    inside = jnp.tanh(inputs @ params["inside.weight"] + params["inside.bias"])
    hidden = gru(params, inside, hidden)
    return jnp.tanh(hidden @ params["action.weight"] + params["action.bias"])[..., 0], hidden


def network(params: Params, inputs: Array, hidden: Array) -> tuple[Array, Array, Array]:
    """The mean action, the value, and the next hidden state, from scaled inputs."""
    mean, hidden = policy(params, inputs, hidden)
    inside = jnp.tanh(hidden @ params["value_inside.weight"] + params["value_inside.bias"])
    value = (inside @ params["value.weight"] + params["value.bias"])[..., 0]
    return mean, value, hidden


def deviation(params: Params, settings: Settings) -> Array:
    """The standard deviation of actions."""
    return jnp.maximum(jnp.exp(params["log_deviation"][0]), settings.deviation_least)


def log_probability(action: Array, mean: Array, std: Array) -> Array:
    """The logarithm of a normal density."""
    return -0.5 * ((action - mean) / std) ** 2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)


class Scale(NamedTuple):
    """What is known of the inputs: how to scale them, and their range."""

    rows: float
    mean: Array
    square: Array
    low: Array
    high: Array

    @staticmethod
    def first(inputs: int) -> Scale:
        """Nothing is known."""
        zeros = np.zeros(inputs)
        return Scale(0.0, zeros, zeros, np.full(inputs, np.inf), np.full(inputs, -np.inf))

    def after(self, rows: Array) -> Scale:
        """Takes in more inputs."""
        count = self.rows + len(rows)
        share, mean, square = len(rows) / count, rows.mean(0), (rows**2).mean(0)
        return Scale(
            count,
            self.mean + (mean - self.mean) * share,
            self.square + (square - self.square) * share,
            np.minimum(self.low, rows.min(0)),
            np.maximum(self.high, rows.max(0)),
        )

    def offset_and_factor(self) -> tuple[Array, Array]:
        """The network gets `(value - offset) * factor`."""
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0))
        return self.mean.astype(np.float32), (1 / np.maximum(spread, 0.01)).astype(np.float32)


class Rollout(NamedTuple):
    """What the flows did between two updates; the first axis is time, the second the flow."""

    inputs: Array
    resets: Array
    """Whether the hidden state was zeroed before the step."""
    actions: Array
    logs: Array
    values: Array
    rewards: Array
    ends: Array
    """Whether the episode ended with the step."""
    hidden: Array
    """The hidden state before the first step."""
    last_value: Array


def advantages(rollout: Rollout, settings: Settings) -> Array:
    """Generalised advantage estimation.

    An episode that ends is cut off, not over: what would have followed is worth what its last state
    was worth.
    """

    def back(later: tuple[Array, Array], step: tuple[Array, ...]) -> tuple[Any, Array]:
        advantage, following = later
        reward, value, end = step
        following = jnp.where(end, value, following)
        error = reward + settings.discount * following - value
        advantage = error + settings.discount * settings.trace * jnp.where(end, 0.0, advantage)
        return (advantage, value), advantage

    first = (jnp.zeros_like(rollout.last_value), rollout.last_value)
    steps = (rollout.rewards, rollout.values, rollout.ends)
    return jax.lax.scan(back, first, steps, reverse=True)[1]


def levelled(gains: Array, family: Array, settings: Settings) -> Array:
    """Advantages in units of their spread within each family.

    Else the families whose rewards vary most, those of radio links, would decide every update.
    """
    member = family[:, None] == np.arange(family.max() + 1)
    share = member / np.maximum(member.sum(0), 1)
    mean = gains.mean(0) @ share
    spread = jnp.sqrt(jnp.maximum((gains**2).mean(0) @ share - mean**2, 0))
    least = settings.spread_least * jnp.sqrt((gains**2).mean())
    return (gains - member @ mean) / (member @ jnp.maximum(spread, least) + 1e-6)


def loss(params: Params, part: tuple[Any, ...], settings: Settings) -> Array:
    """PPO's clipped objective over sequences, with the error of the value and the entropy."""
    inputs, resets, actions, logs, gains, returns, hidden = part

    def step(hidden: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        inputs, resets = at
        mean, value, hidden = network(params, inputs, jnp.where(resets[:, None], 0.0, hidden))
        return hidden, (mean, value)

    _, (means, values) = jax.lax.scan(step, hidden, (inputs, resets))
    std = deviation(params, settings)
    ratio = jnp.exp(log_probability(actions, means, std) - logs)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    policy = -jnp.minimum(ratio * gains, clipped * gains).mean()
    value = 0.5 * ((values - returns) ** 2).mean()
    entropy = jnp.log(std)
    return policy + settings.value_weight * value - settings.entropy_weight * entropy


def optimiser(settings: Settings) -> optax.GradientTransformation:
    """Adam with a falling step and bounded gradients."""
    updates = max(1, settings.steps // (settings.rows * settings.rollout_steps))
    count = updates * settings.epochs * settings.minibatches
    rate = optax.linear_schedule(settings.learning_rate, settings.learning_rate / 10, count)
    return optax.chain(optax.clip_by_global_norm(settings.gradient_norm), optax.adam(rate))


class Programs:
    """The compiled parts of a training."""

    def __init__(self, settings: Settings) -> None:
        """Compiles nothing yet; JAX does at the first call."""
        self.optimiser = optimiser(settings)
        family = worlds.family_of_rows(settings, settings.rows)

        @jax.jit
        def act(params: Params, inputs: Array, hidden: Array, key: Array) -> tuple[Array, ...]:
            mean, value, hidden = network(params, inputs, hidden)
            std = deviation(params, settings)
            action = mean + std * jax.random.normal(key, mean.shape)
            return action, mean, log_probability(action, mean, std), value, hidden

        @jax.jit
        def update(
            params: Params,
            state: Any,  # noqa: ANN401  # optax's own
            rollout: Rollout,
            key: Array,
        ) -> tuple[Any, ...]:
            gains = advantages(rollout, settings)
            returns = gains + rollout.values
            gains = levelled(gains, family, settings)
            of_time = (rollout.inputs, rollout.resets, rollout.actions, rollout.logs)

            def minibatch(carry: tuple[Any, Any], rows: Array) -> tuple[Any, Array]:
                params, state = carry
                part = tuple(it[:, rows] for it in (*of_time, gains, returns))
                part = (*part, rollout.hidden[rows])
                value, gradient = jax.value_and_grad(loss)(params, part, settings)
                change, state = self.optimiser.update(gradient, state, params)
                return (optax.apply_updates(params, change), state), value

            count = rollout.rewards.shape[1]
            size = count // settings.minibatches
            orders = [
                jax.random.permutation(one, count)[: size * settings.minibatches]
                for one in jax.random.split(key, settings.epochs)
            ]
            parts = jnp.concatenate(orders).reshape(-1, size)
            (params, state), losses = jax.lax.scan(minibatch, (params, state), parts)
            return params, state, losses.mean()

        self.act, self.update = act, update


@dataclasses.dataclass
class Training:
    """All that a checkpoint holds."""

    params: Params
    optimiser: Any
    scale: Scale
    average: Params
    """The mean of the weights over the last updates, which is what is exported: the weights of one
    update are good on some paths by chance, and bad on others."""
    updates: int = 0

    @staticmethod
    def first(settings: Settings, inputs: int, programs: Programs) -> Training:
        """A training that has not started."""
        params = first_params(settings, inputs)
        return Training(params, programs.optimiser.init(params), Scale.first(inputs), params)

    def _kept(self) -> tuple[Any, ...]:
        return self.params, self.optimiser, tuple(self.scale), self.average

    def averaged(self, settings: Settings) -> None:
        """Takes the weights after one more update into the mean."""
        self.updates += 1
        share = max(1 / self.updates, settings.average_share)
        self.average = jax.tree.map(
            lambda mean, now: mean + share * (now - mean), self.average, self.params
        )

    def save(self, path: Path, settings: Settings) -> None:
        """Writes a checkpoint, completely or not at all."""
        leaves = jax.tree.leaves(self._kept())
        arrays = {f"leaf_{at}": np.asarray(leaf) for at, leaf in enumerate(leaves)}
        text = json.dumps(dataclasses.asdict(settings))
        facts = {"settings": text, "updates": str(self.updates)}
        atomic.write(path, safetensors.numpy.save(arrays, facts))

    def load(self, path: Path, settings: Settings) -> bool:
        """Continues from a checkpoint, if there is one.

        Raises:
            ValueError: if the checkpoint is of other settings.
        """
        if not path.exists():
            return False
        with safetensors.safe_open(path, "numpy") as file:
            facts = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        if json.loads(facts["settings"]) != json.loads(json.dumps(dataclasses.asdict(settings))):
            fix = "remove it, or give the settings that it has"
            raise ValueError(f"{path}: the checkpoint is of other settings\nfix: {fix}")
        old, structure = jax.tree.flatten(self._kept())
        leaves = [arrays[f"leaf_{at}"] for at in range(len(old))]
        unflattened = jax.tree.unflatten(structure, leaves)
        self.params, self.optimiser, scale, self.average = unflattened
        self.scale = Scale(float(scale[0]), *scale[1:])
        self.updates = int(facts["updates"])
        return True


class Flows:
    """The flows of all environments: one row each."""

    def __init__(self, settings: Settings, of: list[worlds.World]) -> None:
        """Flows whose episodes have just started."""
        self.settings, self.worlds = settings, of
        self.inputs = np.concatenate([world.first for world in self.worlds])
        self.hidden = np.zeros((len(self.inputs), settings.width), np.float32)
        self.resets = np.ones(len(self.inputs), bool)

    def step(self, actions: Array) -> tuple[Array, Array]:
        """Steps all; returns rewards, and whether the episode ended."""
        done, start = [], 0
        for world in self.worlds:
            rows = slice(start, start + len(world.first))
            done.append(world.step(actions[rows]))
            start = rows.stop
        inputs, rewards, ends = (np.concatenate(it) for it in zip(*done, strict=True))
        self.inputs, self.resets = inputs, ends
        return np.maximum(rewards, self.settings.reward_least).astype(np.float32), ends


def rolled_out(flows: Flows, training: Training, programs: Programs, key: Array) -> Rollout:
    """Lets the flows act between two updates."""
    settings, steps = flows.settings, []
    offset, factor = training.scale.offset_and_factor()
    before = flows.hidden
    keys = jax.random.split(key, settings.rollout_steps)
    for one in keys:
        inputs = (flows.inputs - offset) * factor
        resets = flows.resets
        hidden = np.where(resets[:, None], np.float32(0), flows.hidden)
        action, _, log, value, hidden = programs.act(training.params, inputs, hidden, one)
        flows.hidden = np.asarray(hidden)
        rewards, ends = flows.step(np.asarray(action))
        scaled = rewards * np.float32(settings.reward_scale)
        steps.append((inputs, resets, action, log, value, scaled, ends))
    columns: list[Array] = list(zip(*steps, strict=True))
    inputs_of, resets_of, actions, logs, values, rewards_of, ends_of = map(np.stack, columns)
    inputs = (flows.inputs - offset) * factor
    *_, last_value, _ = programs.act(training.params, inputs, flows.hidden, key)
    of_steps = (inputs_of, resets_of, actions, logs, values, rewards_of, ends_of)
    return Rollout(*of_steps, before, np.asarray(last_value))


def learn(
    settings: Settings, training: Training, programs: Programs, checkpoint: Path | None
) -> bool:
    """Trains to the end, or until Ctrl-C. Returns whether it is complete."""
    all_updates = max(1, settings.steps // (settings.rows * settings.rollout_steps))
    stopped: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    try:
        while training.updates < all_updates and not stopped:
            start, rewards = time.monotonic(), []
            seed = settings.seed * 1_009 + training.updates
            flows = Flows(settings, worlds.training(settings, settings.rows, seed))
            if training.scale.rows == 0:
                training.scale = training.scale.after(flows.inputs.astype(np.float64))
            end = min(all_updates, training.updates + settings.round_updates)
            updates, first = training.updates, dataclasses.replace(training)
            while updates < end and not stopped:
                key = jax.random.fold_in(jax.random.key(settings.seed), updates)
                act_key, update_key = jax.random.split(key)
                rollout = rolled_out(flows, training, programs, act_key)
                offset, factor = training.scale.offset_and_factor()
                seen = rollout.inputs.reshape(-1, rollout.inputs.shape[-1]) / factor + offset
                training.params, training.optimiser, _ = programs.update(
                    training.params, training.optimiser, rollout, update_key
                )
                training.scale = training.scale.after(seen.astype(np.float64))
                training.averaged(settings)
                rewards.append(float(rollout.rewards.mean()) / settings.reward_scale)
                updates += 1
            if updates < end:
                # A round counts as a whole or not at all, so that a training can be repeated.
                training.params, training.optimiser = first.params, first.optimiser
                training.scale, training.average = first.scale, first.average
                training.updates = first.updates
                break
            if checkpoint is not None:
                training.save(checkpoint, settings)
            rows = len(flows.inputs)
            speed = len(rewards) * settings.rollout_steps * rows / (time.monotonic() - start)
            std = float(deviation(training.params, settings))
            say(
                f"update {updates} of {all_updates}, reward {np.mean(rewards):.3f}, "
                f"deviation {std:.2f}, {speed:,.0f} steps/s"
            )
    finally:
        signal.signal(signal.SIGINT, previous)
    return training.updates >= all_updates


def evaluated(
    settings: Settings, params: Params, scaling: tuple[Array, Array]
) -> dict[str, dict[str, float]]:
    """The mean reward of each family over held-out episodes, with the mean action each time."""
    offset, factor = scaling
    act, scores = jax.jit(policy), {}
    for family, of_family in worlds.held_out(settings):
        flows, sums = Flows(settings, [of_family]), []
        for _ in range(settings.episode_steps):
            hidden = np.where(flows.resets[:, None], np.float32(0), flows.hidden)
            mean, hidden = act(params, (flows.inputs - offset) * factor, hidden)
            flows.hidden = np.asarray(hidden)
            sums.append(flows.step(np.asarray(mean))[0])
        scores[family] = {"reward": round(float(np.mean(sums)), 4)}
    return scores


def known(scale: Scale, features: tuple[Feature, ...]) -> tuple[Array, Array]:
    """The range of each input in training, within the feature's own range.

    It has a margin that covers rounding.
    """
    margin = 0.02 * (scale.high - scale.low)
    low = np.maximum(scale.low - margin, [feature.low for feature in features])
    high = np.minimum(scale.high + margin, [feature.high for feature in features])
    return np.round(np.minimum(low, high), 6) + 0.0, np.round(high, 6) + 0.0


def card(settings: Settings, training: Training, scores: dict[str, Any]) -> export.Card:
    """What is known of the weights."""
    features = features_of(worlds.settings_of(settings))
    offset, factor = training.scale.offset_and_factor()
    columns = (features, *known(training.scale, features), offset, factor)
    inputs, width = len(features), settings.width
    last = inputs + 2 * width
    dense, memory = {"type": "dense", "outputs": width}, {"type": "gru", "outputs": width}
    return export.Card(
        name="learned",
        kind=KIND,
        inputs=[
            export.Input(feature.name, float(low), float(high), 1, float(at), float(by))
            for feature, low, high, at, by in zip(*columns, strict=True)
        ],
        layers=[
            export.Layer("inside", dense, (0, inputs), "tanh"),
            export.Layer("memory", memory, (inputs, inputs + width)),
            export.Layer("action", {"type": "dense", "outputs": 1}, (last - width, last), "tanh"),
        ],
        outputs=["action"],
        data=worlds.ABOUT,
        families=worlds.families(settings),
        seed=settings.seed,
        hyperparameters=json.loads(json.dumps(dataclasses.asdict(settings))),
        scores=scores,
        limits=LIMITS,
    )


KIND = "window"
"""What the weights are for: the arm takes weights of this kind."""
LIMITS = [
    "Outside the ranges of the inputs the arm follows its fallback.",
    "A score is the mean reward of a step, and compares within its family only.",
]
TENSORS = ("inside", "memory", "action")
"""The layers that the arm evaluates; the others serve the training only."""


CHECKS = 10_000
"""How many evaluations the Rust evaluator is compared with JAX in."""


def exported(weights: Path) -> tuple[Params, dict[str, Array]]:
    """The tensors of exported weights, and what their card says of the inputs."""
    card = json.loads(weights.with_suffix(".json").read_text())
    keys = ("low", "high", "offset", "scale")
    of_card = {key: np.array([it[key] for it in card["inputs"]], np.float32) for key in keys}
    return safetensors.numpy.load_file(weights), of_card


def checks(weights: Path) -> Array:
    """What JAX computes with exported weights for a flow of `CHECKS` steps.

    The inputs lie in the ranges of the card.
    """
    params, of_card = exported(weights)
    low, high = of_card["low"], of_card["high"]
    inputs = export.drawn(low, high, CHECKS)

    def step(hidden: Array, inputs: Array) -> tuple[Array, Array]:
        mean, hidden = policy(params, inputs, hidden)
        return hidden, mean

    width = params["action.weight"].shape[0]
    scaled = (inputs - of_card["offset"]) * of_card["scale"]
    return np.asarray(jax.lax.scan(step, jnp.zeros(width), scaled)[1])


def names(text: str) -> tuple[str, ...]:
    """Parses names with commas between them; an empty text has none."""
    return tuple(filter(None, text.split(",")))


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the arguments: each setting is one."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda train learned")
    parser.add_argument("--out", type=Path, required=True, help="file of weights, .safetensors")
    parser.add_argument("--smoke", action="store_true", help="train for seconds only")
    parser.add_argument(
        "--expected", type=Path, help="train nothing: write what JAX computes with --out"
    )
    parser.add_argument("--fresh", action="store_true", help="ignore a checkpoint")
    for field in dataclasses.fields(Settings):
        name, default = f"--{field.name.replace('_', '-')}", field.default
        if isinstance(default, tuple):
            parser.add_argument(name, type=names, metavar="A,B")
        else:
            parser.add_argument(name, type=type(default), metavar=type(default).__name__.upper())
    return parser.parse_args(argv)


def settings_from(options: argparse.Namespace) -> Settings:
    """The settings: the defaults, those of a smoke test, and what was given."""
    changes: dict[str, Any] = dict(SMOKE) if options.smoke else {}
    for field in dataclasses.fields(Settings):
        if (value := getattr(options, field.name)) is not None:
            changes[field.name] = value
    settings = Settings(**changes)
    for name in ("rows", "evaluations"):
        count = getattr(settings, name)
        if count < 2 or count % 2:
            rule = "must be even and at least 2, as some flows share a path in pairs"
            raise ValueError(f"--{name} is {count}: {rule}")
    return settings


def trained(settings: Settings, out: Path, *, fresh: bool = False) -> bool:
    """Trains and exports. Returns whether the training is complete."""
    checkpoint = out.with_suffix(".checkpoint")
    programs = Programs(settings)
    inputs = len(features_of(worlds.settings_of(settings)))
    training = Training.first(settings, inputs, programs)
    if not fresh and training.load(checkpoint, settings):
        say(f"continues from {checkpoint}, after update {training.updates}")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not learn(settings, training, programs, checkpoint):
        say(f"stopped after update {training.updates}: the same command continues")
        return False
    scores = evaluated(settings, training.average, training.scale.offset_and_factor())
    tensors = {
        name: np.asarray(value)
        for name, value in training.average.items()
        if name.split(".")[0] in TENSORS
    }
    export.write(out, tensors, card(settings, training, scores))
    for family, score in scores.items():
        say(f"{family}: {score}")
    return True


def main(argv: list[str] | None = None) -> int:
    """Trains. Returns the exit status."""
    options = arguments(argv)
    try:
        if options.expected:
            atomic.write(options.expected, checks(options.out).astype("<f4").tobytes())
            return 0
        settings = settings_from(options)
        for field in dataclasses.fields(settings):
            say(f"{field.name} = {getattr(settings, field.name)}")
        say(f"on {jax.devices()[0]}")
        return 0 if trained(settings, options.out, fresh=options.fresh) else 130
    except (ValueError, OSError) as error:
        print(f"remuda: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
