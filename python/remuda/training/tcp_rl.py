"""Trains the policy `tcp_rl`: `python -P -m remuda.training.tcp_rl --out FILE.safetensors`.

TCP-RL (Nie et al., JSAC 2019, section V) in one file: an actor of two dense layers, an LSTM and a
dense layer picks the arm of a flow at each step of 5 s, and a network of two dense layers tells
whether the path has changed. The paper trains the actor by A3C; this is A2C, its synchronous form:
all episodes of an update act with the same weights, and the gradient is the mean over them.

1. Every arm runs alone on every path of a table, and takes over flows that begin with the first arm
   (`tcp_rl_steps.py`). Arms also run in environments of many kinds, some with neighbours
   (`tcp_rl_kinds.py`).
2. The actor is trained on episodes from both: a flow has the arm that the actor picked last, and
   its states and rewards are those of the runs. As the reward of every arm is known there, the
   gradient is the sum over all arms, weighted by their probabilities, and not a sampled one.
3. The network that tells changes is trained on pairs of steps of one path, and of two.
4. The actor picks in the simulator, on paths that change, and both networks go on with what comes.

On the paths of the table the reward is 1.5 ln(bit/s) less ln(one-way delay in ms), each weighted by
what the application wants. The delay is the geometric mean of its mean and its 95th percentile. The
paper has ln(bit/s) less ln of the percentile. In the environments of many kinds the reward is the
logarithm of the merit by which arms are ranked. The reward of the best arm of the path is taken
off: that depends on the path alone, so it only takes variance from the gradient.

On a CPU, the same settings give the same weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import remuda
from remuda.training import atomic, tcp_rl_kinds
from remuda.training import tcp_rl_steps as world
from remuda.training.tcp_rl_kinds import WANTS as WANTS_OF_KINDS
from remuda.training.tcp_rl_kinds import Kinds
from remuda.training.tcp_rl_networks import (
    WANTS,
    Params,
    actor,
    actor_inputs,
    change_inputs,
    change_logit,
    checks,
    first_params,
    no_memory,
    write,
)
from remuda.training.tcp_rl_steps import ARMS, Step, Table
from remuda.training.tcp_rl_steps import Path as Route

Array = Any


THROUGHPUT_POWER = 1.5
"""The power of throughput in the reward of the table: half way between the paper's, which is 1, and
that of the merit by which arms are ranked, which is 2."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a training. The card has them all."""

    seed: int = 1
    """Decides the first weights and every draw."""
    paths: int = 0
    """How many paths of the table to use, spread evenly; 0: all."""
    drawn_paths: int = 200
    """How many drawn paths the table has beside the paper's."""
    table_runs: int = 2
    """Runs of each arm on each path of the table: some arms differ from run to run."""
    table_steps: int = 4
    """The steps of each run of the table."""
    width: int = 128
    """The outputs of each layer, as in the paper."""
    updates: int = 4_000
    """Updates of the actor from the table."""
    episodes: int = 256
    """Episodes from the table in an update."""
    kinds: int = 1_200
    """Environments of many kinds of paths."""
    kinds_episodes: int = 256
    """Episodes from these in an update."""
    choices: int = 3
    """Picks of an episode; the arm that the last one picks keeps the flow."""
    horizon: int = 12
    """Steps of an episode: the paper's path changes every 12."""
    discount: float = 0.99
    """What a reward one step later counts, as in the paper."""
    learning_rate: float = 2e-3
    """Adam's step at the start; it falls to a hundredth. The paper has 1e-4 for 1e5 updates."""
    entropy_first: float = 0.5
    """The weight of the entropy at the start, as in the paper. With 0.05 the actor soon picked the
    arm that is best on average, and nothing else."""
    entropy_last: float = 0.01
    """The weight of the entropy at the end of the updates from the table, as in the paper."""
    value_weight: float = 0.05
    """The weight of the error of the value."""
    switch_cost: float = 0.1
    """What a switch takes from the reward of the next step: the next arm finds the window of the
    one before, and its queue."""
    noise: float = 0.04
    """The standard deviation of the noise on the logarithm of each state, so that the actor does
    not learn the paths of the table by heart."""
    first: str = "learned"
    """The arm that half of the episodes start with, as the policy does; the others start with any.
    What another arm earns after this one is that of whole flows, hand-off and all.
    """
    default_share: float = 0.7
    """The share of episodes in which throughput and delay count 1 each."""
    change_updates: int = 1_500
    """Updates of the network that tells changes."""
    change_pairs: int = 512
    """Pairs of steps in such an update."""
    changed_share: float = 0.3
    """The share of those pairs that are of a changed path."""
    rounds: int = 1
    """Rounds of picking in the simulator."""
    round_flows: int = 96
    """Flows of a round."""
    phases: int = 3
    """Paths of each of these flows, one after the other."""
    phase_steps: int = 8
    """How many steps each of its paths lasts."""
    round_updates: int = 30
    """Updates after each round; half of each batch is from the table."""
    round_weight: float = 0.1
    """The weight of the simulator's episodes in these updates."""
    round_loss_most: float = 0.005
    """If a round takes more than this from the power ratio on the table, the actor goes back. Few
    episodes, whose arms are drawn, once took 0.05."""
    round_learning_rate: float = 1e-4
    """Adam's step in these updates: the paper's."""


SMOKE = {
    "paths": 12,
    "drawn_paths": 0,
    "kinds": 8,
    "kinds_episodes": 64,
    "table_runs": 1,
    "table_steps": 3,
    "updates": 40,
    "episodes": 64,
    "change_updates": 40,
    "rounds": 1,
    "round_flows": 6,
    "phases": 2,
    "phase_steps": 4,
    "round_updates": 4,
}
"""The settings of a training that only shows that training works."""


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"train: {text}", file=sys.stderr, flush=True)


def noisy(states: Array, key: Array, settings: Settings) -> Array:
    """States with noise on rates and delays; losses keep their zero."""
    return states * jnp.exp(settings.noise * jax.random.normal(key, states.shape))


def below_best(throughput_log: Array, one_way_log: Array, wants: Array) -> Array:
    """The reward of each arm, below that of the best one."""
    all_arms = THROUGHPUT_POWER * wants[:, :1] * throughput_log - wants[:, 1:] * one_way_log
    return jnp.maximum(all_arms - all_arms.max(-1, keepdims=True), -4.0)


def rewards(table: Table, paths: Array, wants: Array) -> Array:
    """The reward of each arm on each path once it has the flow."""
    throughput_log = table.settled(table.throughput_log)[paths]
    return below_best(throughput_log, table.settled(table.one_way_log)[paths], wants)


def taken_rewards(table: Table, paths: Array, wants: Array) -> Array:
    """The reward of the whole flow, for each arm that takes it over from the first one."""
    throughput_log = table.taken_throughput_log.mean(-1)[paths]
    return below_best(throughput_log, table.taken_one_way_log.mean(-1)[paths], wants)


def drawn_wants(key: Array, count: int, settings: Settings) -> Array:
    """What applications want: both, or less of one."""
    which, less = jax.random.split(key)
    drawn = jax.random.uniform(which, (count,))
    low, share = jax.random.uniform(less, (count,)), settings.default_share
    throughput = jnp.where(drawn < share, 1.0, jnp.where(drawn < (1 + share) / 2, low, 1.0))
    delay = jnp.where(drawn < (1 + share) / 2, 1.0, low)
    return jnp.stack([throughput, delay], -1)


class Drawn(NamedTuple):
    """What the episodes of a batch begin with."""

    wants: Array
    arms: Array
    """The arm that has the flow at first."""
    from_start: Array
    """The episode begins with the first step of a flow, and not with a later one."""


def drawn_arms(key: Array, count: int, settings: Settings) -> tuple[Array, Array]:
    """The arms that episodes begin with, and whether they begin with the first step of a flow."""
    any_key, half_key, late_key = jax.random.split(key, 3)
    any_arm = jax.random.randint(any_key, (count,), 0, len(ARMS))
    is_any = jax.random.uniform(half_key, (count,)) < 0.5
    arms = jnp.where(is_any, any_arm, ARMS.index(settings.first))
    is_late = is_any & (jax.random.uniform(late_key, (count,)) < 0.5)
    return arms, ~is_late


def episodes_loss(
    params: Params,
    drawn: Drawn,
    look: Callable[[Array, Array, int], tuple[Array, Array]],
    key: Array,
    entropy_weight: Array,
    settings: Settings,
) -> Array:
    """A2C's loss over episodes, as a mean.

    `look(key, arms, choice)` gives the states of a step of these arms, and what each arm earns
    after it until the end, as the mean of a step.
    """
    keys, count = iter(jax.random.split(key, 3 * settings.choices)), len(drawn.arms)
    arms, memory, chooses, total = drawn.arms, no_memory(settings, count), jnp.ones(count), 0.0
    for choice in range(settings.choices):
        states, of_arms = look(next(keys), arms, choice)
        states = noisy(states, next(keys), settings)
        logs, value, memory = actor(params, actor_inputs(states, drawn.wants, arms), memory)
        left = settings.discount ** jnp.arange(settings.horizon - choice)
        switches = jax.nn.one_hot(arms, len(ARMS)) == 0
        earned = of_arms - settings.switch_cost * switches / left.sum()
        probabilities = jnp.exp(logs)
        expected = jax.lax.stop_gradient((probabilities * earned).sum(-1, keepdims=True))
        gain = (probabilities * (earned - expected)).sum(-1)
        entropy = -(probabilities * logs).sum(-1)
        error = (value - expected[:, 0]) ** 2
        each = -gain - entropy_weight * entropy + settings.value_weight * error
        total += (chooses * each).sum() / count
        picked = jax.random.categorical(next(keys), jax.lax.stop_gradient(logs))
        # After a flow's first step the actor decides again, whatever it picks.
        looks_on = (picked != arms) | (drawn.from_start if choice == 0 else False)
        chooses = chooses * looks_on
        arms = picked
    return total


def table_loss(
    params: Params, table: Table, key: Array, entropy_weight: Array, settings: Settings
) -> Array:
    """The loss over episodes from the table."""
    where, run, which, want, rest = jax.random.split(key, 5)
    count, first = settings.episodes, ARMS.index(settings.first)
    paths = jax.random.randint(where, (count,), 0, table.states.shape[0])
    runs = jax.random.randint(run, (count,), 0, table.states.shape[2])
    drawn = Drawn(drawn_wants(want, count, settings), *drawn_arms(which, count, settings))
    of_arms = rewards(table, paths, drawn.wants)
    taken = taken_rewards(table, paths, drawn.wants)

    def look(key: Array, arms: Array, choice: int) -> tuple[Array, Array]:
        later = jax.random.randint(key, (count,), 1, table.states.shape[3])
        is_first = drawn.from_start if choice == 0 else jnp.zeros(count, bool)
        at = jnp.where(is_first, 0, later)
        earned = jnp.where((is_first & (arms == first))[:, None], taken, of_arms)
        return table.states[paths, arms, runs, at], earned

    return episodes_loss(params, drawn, look, rest, entropy_weight, settings)


def kinds_loss(
    params: Params, kinds: Kinds, key: Array, entropy_weight: Array, settings: Settings
) -> Array:
    """The loss over episodes of many kinds of paths."""
    where, which, want, rest = jax.random.split(key, 4)
    count, share = settings.kinds_episodes, settings.default_share
    environments = jax.random.randint(where, (count,), 0, kinds.states.shape[0])
    odds = jnp.array([share, *[(1 - share) / 2] * 2])
    wants = jax.random.choice(want, len(WANTS_OF_KINDS), (count,), p=odds)
    drawn = Drawn(jnp.array(WANTS_OF_KINDS)[wants], *drawn_arms(which, count, settings))

    def look(key: Array, arms: Array, choice: int) -> tuple[Array, Array]:
        later = jax.random.randint(key, (count,), 1, kinds.states.shape[2])
        at = jnp.where(drawn.from_start, 0, later) if choice == 0 else later
        return kinds.states[environments, arms, at], kinds.rewards[wants, environments, at]

    return episodes_loss(params, drawn, look, rest, entropy_weight, settings)


def optimiser(first: float, count: int) -> optax.GradientTransformation:
    """Adam with a step that falls to a hundredth, and bounded gradients."""
    rate = optax.cosine_decay_schedule(first, count, 0.01)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))


def trained_on_tables(params: Params, table: Table, kinds: Kinds, settings: Settings) -> Params:
    """The actor after its updates from the table and from many kinds of paths."""
    adam = optimiser(settings.learning_rate, settings.updates)

    @jax.jit
    def update(params: Params, state: Any, at: Array) -> tuple[Params, Any, Array]:  # noqa: ANN401
        share = at / settings.updates
        weight = settings.entropy_first * (settings.entropy_last / settings.entropy_first) ** share
        one, two = jax.random.split(jax.random.fold_in(jax.random.key(settings.seed), at))

        def both(params: Params) -> Array:
            of_table = table_loss(params, table, one, weight, settings)
            return of_table + kinds_loss(params, kinds, two, weight, settings)

        loss, gradient = jax.value_and_grad(both)(params)
        change, state = adam.update(gradient, state, params)
        return optax.apply_updates(params, change), state, loss

    state = adam.init(params)
    for at in range(settings.updates):
        params, state, loss = update(params, state, jnp.asarray(at))
        if (at + 1) % 200 == 0:
            say(f"actor: update {at + 1} of {settings.updates}, loss {float(loss):.4f}")
    return params


class Pairs:
    """Pairs of steps of one arm from the table and from the simulator, and whether they differ."""

    def __init__(self, table: Table, found: list[tuple[Step, Step, bool]]) -> None:
        """Takes the pairs that the simulator has found; none before its first round."""
        self.table, self.found = table, found

    def drawn(self, rng: np.random.Generator, settings: Settings) -> tuple[Array, ...]:
        """Last states, states, arms and whether the path has changed."""
        states, count = np.asarray(self.table.states), settings.change_pairs
        changed = rng.random(count) < settings.changed_share
        paths, arms = rng.integers(len(states), size=count), rng.integers(len(ARMS), size=count)
        others = np.where(changed, rng.integers(len(states), size=count), paths)
        runs, steps = states.shape[2:4]
        one, two = (
            (rng.integers(runs, size=count), rng.integers(1, steps, size=count)) for _ in range(2)
        )
        last, now = states[paths, arms, *one], states[others, arms, *two]
        # A change falls into a step: part of what the step measures is of the path before.
        share = np.where(rng.random(count) < 0.5, rng.uniform(0, 0.6, count), 0)[:, None]
        now = np.where(changed[:, None], share * last + (1 - share) * now, now)
        noise = [settings.noise * rng.normal(size=now.shape) for _ in range(2)]
        last, now = (it * np.exp(by) for it, by in zip((last, now), noise, strict=True))
        labels = changed & (paths != others)
        if self.found:
            half = rng.integers(len(self.found), size=count // 2)
            for place, at in enumerate(half):
                before, after, labels[place] = self.found[at]
                last[place], now[place], arms[place] = before.state, after.state, before.arm
        return last.astype(np.float32), now.astype(np.float32), arms, labels.astype(np.float32)


def trained_to_tell(params: Params, pairs: Pairs, settings: Settings, updates: int) -> Params:
    """The network that tells changes after its updates."""
    adam = optimiser(settings.learning_rate, updates)
    rng = np.random.default_rng(settings.seed + len(pairs.found))

    @jax.jit
    def update(params: Params, state: Any, part: Any) -> tuple[Params, Any, Array]:  # noqa: ANN401
        last, now, arms, labels = part

        def loss(params: Params) -> Array:
            logit = change_logit(params, change_inputs(last, now, arms))
            return optax.sigmoid_binary_cross_entropy(logit, labels).mean()

        value, gradient = jax.value_and_grad(loss)(params)
        change, state = adam.update(gradient, state, params)
        return optax.apply_updates(params, change), state, value

    state = adam.init(params)
    for at in range(updates):
        params, state, loss = update(params, state, pairs.drawn(rng, settings))
        if (at + 1) % 300 == 0:
            say(f"change: update {at + 1} of {updates}, loss {float(loss):.4f}")
    return params


@dataclasses.dataclass
class Episode:
    """What a flow did from its start, or from a change, until it settled."""

    steps: list[Step]
    """The step before each pick."""
    returns: list[float]
    """What the steps after each pick earned, as the mean of a step."""


def episodes(of_flow: list[Step], best: list[float], settings: Settings) -> list[Episode]:
    """The episodes of a flow. `best` has the reward of the best arm of each phase."""
    found: list[Episode] = []
    fresh = True
    for at, step in enumerate(of_flow):
        if not step.picks:
            fresh = True
            continue
        rest = of_flow[at + 1 : at + 1 + settings.horizon]
        rest = [it for it in rest if it.phase == step.phase and not it.is_mixed]
        if not rest:
            fresh = True
            continue
        if fresh or len(found[-1].steps) == settings.choices:
            found.append(Episode([], []))
        power = THROUGHPUT_POWER
        earned = [power * it.throughput_log - it.one_way_log - best[it.phase] for it in rest]
        weights = settings.discount ** np.arange(len(rest))
        found[-1].steps.append(step)
        found[-1].returns.append(max(float(np.average(earned, weights=weights)), -4.0))
        fresh = step.settles
    return found


def found_pairs(of_flow: list[Step]) -> list[tuple[Step, Step, bool]]:
    """Steps of one arm that follow each other, and whether the path has changed between them."""
    both = itertools.pairwise(of_flow[1:])
    same = [(one, two) for one, two in both if one.arm == two.arm]
    # A step in which the path has changed is of both paths: as the later one it is of the new.
    return [(one, two, one.phase != two.phase) for one, two in same if not one.is_mixed]


def configuration(folder: Path, more: str = "") -> str:
    """The agent's configuration with the networks of that folder."""
    files = {
        "weights": folder / "actor.safetensors",
        "change_weights": folder / "change.safetensors",
    }
    lines = [f"{key} = {json.dumps(str(path))}" for key, path in files.items()]
    return "\n".join(["[policy.tcp_rl]", *lines, more])


def simulated(
    nets: tuple[Params, Params], table: Table, seen: Array, settings: Settings, nth: int
) -> tuple[list[list[Step]], list[list[float]]]:
    """The steps of a round of flows, and the reward of the best arm of each of their phases."""
    rng = np.random.default_rng([settings.seed, nth])
    paths = used_paths(settings)
    # Those of the table have a known best arm.
    deep = [at for at, path in enumerate(paths) if path.buffer_pkts] or list(range(len(paths)))
    picks = rng.choice(deep, (settings.round_flows, settings.phases))
    phase_s = 5.0 * settings.phase_steps
    phases = [[paths[at] for at in row] for row in picks]
    logs = THROUGHPUT_POWER * table.throughput_log - table.one_way_log
    settled = np.asarray(table.settled(logs)).max(1)
    with tempfile.TemporaryDirectory() as folder:
        write(
            Path(folder) / "actor.safetensors",
            Path(folder) / "change.safetensors",
            nets,
            seen,
            settings,
            {},
        )
        config = configuration(Path(folder), 'draws = true\nfirst = "random"\n')
        runs = [world.scenario(row, phase_s) for row in phases]
        seeds = [int(it) for it in rng.integers(1 << 31, size=len(runs))]
        results = remuda.run_many(runs, seeds, config=config)
    found = [world.steps(it, row, phase_s) for it, row in zip(results, phases, strict=True)]
    return found, [[float(settled[at]) for at in row] for row in picks]


def stacked(all_episodes: list[Episode], settings: Settings) -> tuple[Array, ...]:
    """States, arms, picks, returns and weights of episodes, padded to the same length."""
    count, most = len(all_episodes), settings.choices
    states = np.ones((count, most, len(world.STATES)), np.float32)
    arms, picks = np.zeros((2, count, most), int)
    returns, weights = np.zeros((2, count, most), np.float32)
    for row, episode in enumerate(all_episodes):
        for at, (step, earned) in enumerate(zip(episode.steps, episode.returns, strict=True)):
            states[row, at], arms[row, at], picks[row, at] = step.state, step.arm, step.to
            returns[row, at], weights[row, at] = earned, 1
    return states, arms, picks, returns, weights


def flow_loss(params: Params, batch: tuple[Array, ...], settings: Settings) -> Array:
    """A2C's loss over the episodes of the simulator."""
    states, arms, picks, returns, weights = batch
    memory, total = no_memory(settings, len(states)), 0.0
    wants = jnp.ones((len(states), len(WANTS)))
    for at in range(settings.choices):
        inputs = actor_inputs(states[:, at], wants, arms[:, at])
        logs, value, memory = actor(params, inputs, memory)
        log = jnp.take_along_axis(logs, picks[:, at, None], 1)[:, 0]
        gain = returns[:, at] - value
        held = jax.lax.stop_gradient(gain)
        of_all = (weights[:, at] * held).sum() / jnp.maximum(weights[:, at].sum(), 1)
        spread = jnp.sqrt((weights[:, at] * (held - of_all) ** 2).mean()) + 1e-3
        each = -log * (held - of_all) / spread + settings.value_weight * gain**2
        total += (weights[:, at] * each).sum()
    return total / jnp.maximum(weights.sum(), 1)


def fine_tuned(
    nets: tuple[Params, Params], table: Table, kinds: Kinds, settings: Settings
) -> tuple[Params, Params]:
    """Both networks after rounds in the simulator."""
    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(settings.round_learning_rate))

    @jax.jit
    def update(params: Params, state: Array, batch: Array, key: Array) -> tuple[Params, Any]:
        def loss(params: Params) -> Array:
            one, two = jax.random.split(key)
            of_table = table_loss(params, table, one, settings.entropy_last, settings)
            of_table += kinds_loss(params, kinds, two, settings.entropy_last, settings)
            return of_table + settings.round_weight * flow_loss(params, batch, settings)

        change, state = adam.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, change), state

    (picks, tells), pairs = nets, Pairs(table, [])
    state = adam.init(picks)
    for nth in range(settings.rounds):
        found, best = simulated((picks, tells), table, seen_states(table, kinds), settings, nth)
        all_episodes = [
            episode
            for of_flow, of_best in zip(found, best, strict=True)
            for episode in episodes(of_flow, of_best, settings)
        ]
        pairs.found += [pair for of_flow in found for pair in found_pairs(of_flow)]
        mean = np.mean([it for episode in all_episodes for it in episode.returns])
        say(f"round {nth + 1}: {len(all_episodes)} episodes, {len(pairs.found)} pairs, {mean:.3f}")
        batch, before = stacked(all_episodes, settings), (picks, state)
        for at in range(settings.round_updates):
            key = jax.random.fold_in(jax.random.key(settings.seed + 1), nth * 1_000 + at)
            picks, state = update(picks, state, batch, key)
        was, now = (score(it, table, settings)["power_ratio"] for it in (before[0], picks))
        if now < was - settings.round_loss_most:
            say(f"round {nth + 1}: {now} of the best power on the table, {was} before: undone")
            picks, state = before
        tells = trained_to_tell(tells, pairs, settings, settings.change_updates)
    return picks, tells


def seen_states(table: Table, kinds: Kinds) -> Array:
    """All states of the training: rows of `world.STATES`. Arms that did not run have none."""
    both = [np.asarray(it.states).reshape(-1, len(world.STATES)) for it in (table, kinds)]
    rows = np.concatenate(both)
    return rows[rows[:, 1] > 0]


def collected(settings: Settings, keep: Path | None) -> Kinds:
    """The environments of many kinds. `keep` keeps their runs for a further training."""
    with tempfile.TemporaryDirectory() as folder:
        tcp_rl_kinds.collect(keep or Path(folder), settings.kinds)
        return tcp_rl_kinds.read(keep or Path(folder))


def used_paths(settings: Settings) -> list[Route]:
    """The paths of the table."""
    paths = world.table_paths(settings.drawn_paths)
    if not settings.paths:
        return paths
    return [paths[at] for at in np.linspace(0, len(paths) - 1, settings.paths).astype(int)]


def score(params: Params, table: Table, settings: Settings) -> dict[str, float]:
    """How the actor picks on the table: power as a share of the best arm's, and steps to settle."""
    count = len(table.states)
    rows, wants = jnp.arange(count), jnp.ones((count, len(WANTS)))
    of_arms, memory = rewards(table, rows, wants), no_memory(settings, count)
    arms = jnp.full(count, ARMS.index(settings.first))
    settled = jnp.zeros(count, bool)
    for choice in range(settings.choices):
        states = table.states[rows, arms, 0, min(choice, table.states.shape[3] - 1)]
        logs, _, memory = actor(params, actor_inputs(states, wants, arms), memory)
        picked = jnp.where(settled, arms, logs.argmax(-1))
        settled, arms = settled | (picked == arms), picked
    ratios = np.exp(np.asarray(of_arms[rows, arms]))
    first = np.exp(np.asarray(of_arms[:, ARMS.index(settings.first)]))
    return {
        "power_ratio": round(float(ratios.mean()), 4),
        "power_ratio_of_first": round(float(first.mean()), 4),
        "within_10_percent": round(float((ratios >= 0.9).mean()), 4),
        "settled": round(float(np.asarray(settled).mean()), 4),
    }


def trained(
    settings: Settings, out: Path, keep: Path | None = None, keep_kinds: Path | None = None
) -> None:
    """Trains and exports. `keep` and `keep_kinds` keep the runs for a further training."""
    start = time.monotonic()
    paths = used_paths(settings)
    if keep and keep.exists():
        with np.load(keep) as arrays:
            table = Table(*(arrays[name] for name in Table._fields))
        if len(table.states) != len(paths):
            raise ValueError(f"{keep}: the table has other paths\nfix: remove it")
    else:
        runs, steps, first = settings.table_runs, settings.table_steps, settings.first
        table = world.tabulated(paths, runs, steps, settings.seed, first)
        if keep:
            np.savez(keep, **table._asdict())
    say(f"table of {len(paths)} paths after {time.monotonic() - start:.0f} s")
    kinds = collected(settings, keep_kinds)
    say(f"{len(kinds.states)} environments after {time.monotonic() - start:.0f} s")
    table, kinds = Table(*map(jnp.asarray, table)), Kinds(*map(jnp.asarray, kinds))
    picks, tells = first_params(settings)
    picks = trained_on_tables(picks, table, kinds, settings)
    scores = {"after_table": score(picks, table, settings)}
    tells = trained_to_tell(tells, Pairs(table, []), settings, settings.change_updates)
    say(f"on the table: {scores['after_table']}, after {time.monotonic() - start:.0f} s")
    picks, tells = fine_tuned((picks, tells), table, kinds, settings)
    scores["after_rounds"] = score(picks, table, settings)
    say(f"after the rounds: {scores['after_rounds']}, after {time.monotonic() - start:.0f} s")
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, change_file(out), (picks, tells), seen_states(table, kinds), settings, scores)


def change_file(out: Path) -> Path:
    """The file of the network that tells changes, beside that of the actor."""
    return out.with_name(f"{out.stem}_change.safetensors")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the arguments: each setting is one."""
    parser = argparse.ArgumentParser(description=__doc__, prog="remuda train tcp_rl")
    parser.add_argument("--out", type=Path, required=True, help="file of weights, .safetensors")
    parser.add_argument("--smoke", action="store_true", help="train for seconds only")
    parser.add_argument("--table", type=Path, help="keep the table of runs in this file, .npz")
    parser.add_argument("--kinds-data", type=Path, help="keep the runs of --kinds in this folder")
    parser.add_argument(
        "--expected", type=Path, help="train nothing: write what JAX computes with --out"
    )
    for field in dataclasses.fields(Settings):
        kind = type(field.default)
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=kind, metavar=kind.__name__.upper())
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Trains. Returns the exit status."""
    options = arguments(argv)
    changes: dict[str, Any] = dict(SMOKE) if options.smoke else {}
    names = (field.name for field in dataclasses.fields(Settings))
    changes |= {name: it for name in names if (it := getattr(options, name)) is not None}
    try:
        if options.expected:
            atomic.write(options.expected, checks(options.out).astype("<f4").tobytes())
            return 0
        trained(Settings(**changes), options.out, options.table, options.kinds_data)
    except (ValueError, OSError) as error:
        print(f"remuda: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
