"""A flow that your program drives, as a `gymnasium` environment."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from remuda import _native
from remuda.settings import FLAGS, METRICS, CongestionSettings, action_space, observation_space

Observation = NDArray[np.float32]
Action = NDArray[np.float32]
_ACTIVE = METRICS.index("active")


class Baseline(NamedTuple):
    """An episode that an arm, or the oracle, has driven."""

    rewards: NDArray[np.float64]
    """The reward of each step and flow; 0 where a flow does not run."""
    active: NDArray[np.bool_]
    """In which steps each flow runs."""
    metrics: NDArray[np.float64]
    """`METRICS` of each step and flow."""

    @property
    def mean(self) -> float:
        """The mean reward of the steps in which a flow runs."""
        return float(self.rewards[self.active].mean())


def played(flows: int, rewards: list[float], metrics: list[float]) -> Baseline:
    """A baseline from what the native part returns."""
    table = np.array(metrics).reshape(-1, flows, len(METRICS))
    return Baseline(np.array(rewards).reshape(-1, flows), table[:, :, _ACTIVE] > 0, table)


def figures(metrics: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """The columns of a table of metrics by name."""
    columns: dict[str, NDArray[Any]] = {}
    for column, name in enumerate(METRICS):
        values = metrics[..., column]
        columns[name] = values > 0 if name in FLAGS else values
    return columns


class CongestionEnv(gymnasium.Env[Observation, Action]):
    """One flow whose sending rate, or window, you set step by step.

    A step takes one round trip (`step_rtts`). The simulator provides packets, queue, losses,
    retransmissions and pacing; see `CongestionSettings` for links and scenarios.

    Action: `Box(-1, 1, (1,))`. As in Aurora, an action `a` multiplies the current rate or window by
    `1 + scale * a` if it is positive, and by `1 / (1 - scale * a)` if not, with `scale` the setting
    `action_scale`: an action and its negative cancel out. A value outside of the box counts as its
    edge. A rate stays between two segments in a round trip and twice the highest delivery rate so
    far; a window stays between two segments and 10 bandwidth-delay products measured so far.

    Observation: `Box(low, high, (history * 8,), float32)`, the last `history` steps one after the
    other, the newest last, 0 for steps before the episode. It has only what a sender can measure:

    | feature            | range  | unit | meaning                                               |
    | ------------------ | ------ | ---- | ----------------------------------------------------- |
    | `send_ratio`       | 0..5   | 1    | highest sending rate over highest delivery rate       |
    | `latency_ratio`    | 0..10  | 1    | mean round trip over the shortest of the episode      |
    | `latency_gradient` | -1..1  | s/s  | change of the mean round trip over a step's length    |
    | `loss_rate`        | 0..1   | 1    | segments lost over segments lost or delivered         |
    | `ecn_rate`         | 0..1   | 1    | segments marked over segments delivered               |
    | `delivery_ratio`   | 0..2   | 1    | delivered bytes/s over the fastest delivery seen      |
    | `rate_ratio`       | 0..10  | 1    | the current rate over the fastest delivery seen; with |
    |                    |        |      | `control="window"`: the window over the BDP seen      |
    | `in_flight_bdp`    | 0..10  | 1    | most bytes in flight over the BDP seen                |

    BDP is the highest delivery rate times the shortest round trip so far. `FEATURES` has the same.
    With `features="sizes"`, the numbers of `SIZE_FEATURES` follow these in each step.

    With `reward="linear"`, the reward is `throughput_weight * share - delay_weight * min(10, (rtt -
    base_rtt) / base_rtt) - loss_weight * loss_rate`, where `share` is the delivered bytes over what
    the bottleneck can carry, and `rtt` is the mean round trip of the step. With `reward="merit"`,
    it is the logarithm of the merit by which arms are ranked: of goodput over an equal share of
    what the link could carry in this step, of `rtt / base_rtt`, of loss, and of harm. Unlike the
    observation, the reward uses the true link. `reward_scale` multiplies both.

    `info` has figures of the last step: `time_s`, `throughput_mbit_per_sec`, `rtt_ms`, `loss_rate`,
    `rate_mbit_per_sec`, `cwnd_pkts`; and of the link: `bandwidth_mbit_per_sec`, `base_rtt_ms`, and
    after a reset `queue_bdp` and `loss_percent` if they were drawn. `capacity_mbit_per_sec` is what
    the link could carry in the step, `equal_share` the delivered bytes over an equal share of it,
    and `harm` what other flows lack of an equal share in the last steps, 0 to 1. `active` says
    whether the step's reward counts, and `starts` whether the observation is the first of its
    episode: before it, a recurrent policy forgets.

    With `flows` above 1, observations have shape `(flows, history * 8)` and actions `(flows, 1)`,
    or `(flows,)` for arms. The reward is the mean over active flows; `info["rewards"]` has each,
    and the figures are arrays. A flow that has not started, has ended, or that the episode lacks is
    not active, and its action is ignored.

    An episode is truncated after `episode_steps`, or at its scenario's end. It terminates when a
    flow with `bytes` has delivered them. The same seed gives the same episodes.

    An environment can be pickled, and copied by `copy.deepcopy`, at any moment: the copy repeats
    the episode so far, and then returns the same observations for the same actions.

    Args:
        settings: the settings of the environment.
        render_mode: must be `None`.
        changes: settings that differ from `settings`.

    Raises:
        ValueError: if a setting or the scenario breaks a rule; the message names key and rule.
        OSError: if the scenario's file cannot be read.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # gymnasium's own declaration

    def __init__(
        self,
        settings: CongestionSettings | None = None,
        *,
        render_mode: None = None,
        **changes: Any,  # noqa: ANN401  # checked by name and value
    ) -> None:
        """Creates the environment; `reset` starts the first episode."""
        if render_mode is not None:
            raise ValueError(f"`render_mode` is {render_mode!r}: must be None")
        self.render_mode = None
        self.settings = CongestionSettings.of(settings, changes)
        self._env = _native.Env(self.settings.to_native())
        self._flows = self._env.flows
        self.observation_space = observation_space(self.settings)
        self.action_space: Any = action_space(self.settings)
        self._shape: tuple[int, ...] = (self._env.observation_len,)
        if self._flows > 1:
            self.observation_space = batch_space(self.observation_space, self._flows)
            self.action_space = batch_space(self.action_space, self._flows)
            self._shape = (self._flows, *self._shape)
        self._step = self._env.step

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: decides this episode and the following ones; by default, the random state of the
                last seed continues.
            options: not used.

        Returns:
            The first observation, after three round trips at the first rate, and `info`.
        """
        is_first = self._np_random is None
        if isinstance(seed, np.integer):
            seed = int(seed)
        super().reset(seed=seed)
        if seed is None and is_first:
            seed = int(self.np_random.integers(2**63))
        observation = np.empty(self._shape, np.float32)
        info: dict[str, Any] = self._env.reset(seed, observation)
        if self._flows > 1:
            metrics = np.array(self._env.metrics()).reshape(self._flows, -1)
            info = {**info, **figures(metrics), "rewards": np.zeros(self._flows)}
        return observation, info

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Executes a step.

        Args:
            action: one number, of shape `(1,)`; for arms a whole number. With several flows, one
                for each.

        Returns:
            Observation, reward, whether the episode terminated, whether it was truncated, `info`.

        Raises:
            ValueError: if the action is not one number.
            RuntimeError: if no episode runs.
        """
        if self._flows > 1:
            return self._step_all(action)
        observation = np.empty(self._shape, np.float32)
        try:
            (number,) = np.reshape(action, 1) if self.settings.control == "arm" else action
            reward, terminated, truncated, info = self._step(number, observation)
        except (TypeError, ValueError) as error:
            rule = "must be one finite number, of shape (1,)"
            raise ValueError(f"the action is {action!r}: {rule}") from error
        return observation, reward, terminated, truncated, info

    def _step_all(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        flows = self._flows
        actions = np.ascontiguousarray(action, np.float32)
        if actions.shape != self.action_space.shape:
            rule = f"must have shape {self.action_space.shape}, one number per flow"
            raise ValueError(f"the action has shape {actions.shape}: {rule}")
        observation = np.empty(self._shape, np.float32)
        rewards = np.empty(flows)
        terminated, truncated = np.empty(flows, np.uint8), np.empty(flows, np.uint8)
        metrics = np.empty((flows, len(METRICS)))
        is_over = self._env.step_all(
            actions.reshape(flows), observation, rewards, terminated, truncated, metrics
        )
        info: dict[str, Any] = {**figures(metrics), "rewards": rewards}
        active = info["active"]
        reward = float(rewards[active].mean()) if active.any() else 0.0
        is_done = is_over and not truncated.any()
        return observation, reward, is_done, is_over and not is_done, info

    def baseline(self, driver: str, seed: int) -> Baseline:
        """Plays the episode that `seed` draws with an arm in place of your program.

        Args:
            driver: an arm or a policy, as `"bbr"`; a constant window, as `"window:100"`; or
                `"oracle"`, which knows the schedule of the link: it sends at the rate at which the
                link will carry its packets, or at an equal share of it.
            seed: as of `reset`.

        Raises:
            ValueError: if there is no such driver.
        """
        return played(*self._env.baseline(driver, seed))

    def __getstate__(self) -> dict[str, Any]:
        """What `pickle` stores: how the episode was drawn, and its actions, for the native part."""
        state = self.__dict__.copy()
        del state["_env"], state["_step"]
        return {**state, "_saved": self._env.save()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Repeats the episode of the environment that was pickled."""
        saved = state["_saved"]
        self.__dict__.update({name: state[name] for name in state if name != "_saved"})
        self._env = _native.Env(self.settings.to_native())
        self._env.restore(saved)
        self._step = self._env.step

    @property
    def packets_sent(self) -> int:
        """Data packets that all flows of all episodes have sent."""
        return self._env.packets_sent
