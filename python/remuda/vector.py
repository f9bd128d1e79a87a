"""Many flows that your program drives at once, as a `gymnasium` vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from remuda import _native
from remuda.env import Baseline, figures, played
from remuda.settings import METRICS, CongestionSettings, action_space, observation_space

Observations = NDArray[np.float32]
Actions = NDArray[np.float32]
Flags = NDArray[np.bool_]
Rewards = NDArray[np.float64]

_SEED_MAX = 2**64 - 1


class CongestionVecEnv(VectorEnv[Observations, Actions, NDArray[Any]]):
    """Many `CongestionEnv`, stepped in Rust without the interpreter.

    Environment `i` does the same as a single one with its seed and actions, for any number of
    environments and threads.

    Every array that `reset` and `step` return is new, and Rust writes directly into it: nothing is
    copied, and nothing changes later. With `out`, all observations are written into that array.

    `info` has an array for each of `METRICS`, with a mask, as in gymnasium's environments. With
    `AutoresetMode.SAME_STEP` it also has `final_obs` and `final_info` of environments whose episode
    ended.

    With the setting `flows` above 1, each row of the arrays is one flow, and the rows of one
    simulation follow each other: rows 0 to `flows - 1` share the first path. `num_envs` counts
    rows. A row's flow may start later than others, end earlier, or be absent; `info["active"]` says
    which rewards count, and `info["starts"]` which observations are the first of an episode, before
    which a recurrent policy forgets. A flow's `terminated` or `truncated` is true once, when it
    ends; the rows of a simulation start anew together, after the last of them has ended.

    The environments can be pickled as a single one can. A copy has an array `out` of its own.

    Args:
        num_envs: the number of rows: a multiple of the setting `flows`, which by default is 1.
        settings: the settings of each environment.
        threads: how many threads step them; 1 uses the caller's thread.
        autoreset_mode: when an environment whose episode is over starts the next one: in the
            following step, whose action is ignored and whose reward is 0 (`NEXT_STEP`); in the
            same step (`SAME_STEP`); at `reset(options={"reset_mask": mask})` (`DISABLED`).
        out: your array for observations, float32, of shape `(num_envs, history * 8)`.
        render_mode: must be `None`.
        changes: settings that differ from `settings`.

    Raises:
        ValueError: if a setting or the scenario breaks a rule; the message names key and rule.
        OSError: if the scenario's file cannot be read.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # gymnasium's own declaration
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        settings: CongestionSettings | None = None,
        *,
        threads: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        out: Observations | None = None,
        render_mode: None = None,
        **changes: Any,  # noqa: ANN401  # checked by name and value
    ) -> None:
        """Creates the environments; `reset` starts the first episodes."""
        if render_mode is not None:
            raise ValueError(f"`render_mode` is {render_mode!r}: must be None")
        for name, count in (("num_envs", num_envs), ("threads", threads)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ValueError(f"`{name}` is {count!r}: must be a whole number above 0")
        self.render_mode = None
        self.num_envs = int(num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.settings = CongestionSettings.of(settings, changes)
        mode = self.autoreset_mode.value
        self._threads = int(threads)
        native = self.settings.to_native()
        self._flows = int(self.settings.flows)
        if self.num_envs % self._flows:
            rule = f"must be a multiple of `flows`, which is {self._flows}"
            raise ValueError(f"`num_envs` is {self.num_envs}: {rule}")
        self._envs = _native.Envs(native, self.num_envs // self._flows, self._threads, mode)
        self.single_observation_space = observation_space(self.settings)
        self.single_action_space = action_space(self.settings)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._actions_shape = self.action_space.shape
        self._shape = (self.num_envs, self._envs.observation_len)
        self._all = np.ones(self.num_envs, np.bool_)
        self._all.flags.writeable = False
        self._out = self._checked(out)

    def _checked(self, out: Observations | None) -> Observations | None:
        if out is None:
            return None
        rule = f"must be a writable float32 array of shape {self._shape}, in C order"
        if not isinstance(out, np.ndarray):
            raise ValueError(f"`out` is {type(out).__name__}: {rule}")
        found = f"an array of {out.dtype} of shape {out.shape}"
        fits = out.dtype == np.float32 and out.shape == self._shape
        if not fits or not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError(f"`out` is {found}: {rule}")
        return out

    def _seeds(self, seed: int | Sequence[int | None]) -> list[int | None]:
        """Returns one seed for each environment."""
        if isinstance(seed, int):
            seeds: list[Any] = [seed + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            rule = f"must have {self.num_envs}, one per environment"
            raise ValueError(f"`seed` has {len(seeds)} values: {rule}")
        for index, one in enumerate(seeds):
            is_whole = isinstance(one, int | np.integer) and not isinstance(one, bool)
            if one is not None and not (is_whole and 0 <= one <= _SEED_MAX):
                rule = "must be a whole number from 0 to 2**64 - 1"
                raise ValueError(f"`seed` of environment {index} is {one!r}: {rule}")
        return [None if one is None else int(one) for one in seeds]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts an episode in each environment.

        Args:
            seed: row `i` gets `seed + i`, or seed `i` of a sequence; by default the random state of
                its last seed continues. A simulation of several flows uses that of its first row.
            options: `reset_mask`, a bool array: resets only the environments where it is true. It
                must be the same for all flows of a simulation.

        Returns:
            The first observations and `info`.

        Raises:
            ValueError: if the number of seeds is not that of environments, if a seed is below 0 or
                above 2**64 - 1, or if the mask has a wrong type or shape.
        """
        is_first = self._np_random is None
        if isinstance(seed, np.integer):
            seed = int(seed)
        given = None if seed is None else self._seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = given or [None] * self.num_envs
        if given is None and is_first:
            seeds = [int(one) for one in self.np_random.integers(2**63, size=self.num_envs)]
        mask = None if options is None else options.get("reset_mask")
        if mask is not None:
            mask = np.ascontiguousarray(mask)
            if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
                rule = f"must be a bool array of shape ({self.num_envs},), one of them true"
                raise ValueError(f"`reset_mask` is {mask.dtype} of {mask.shape}: {rule}")
            groups = mask.reshape(-1, self._flows)
            if (groups != groups[:, :1]).any():
                rule = f"must be the same for the {self._flows} flows of a simulation"
                raise ValueError(f"`reset_mask` is {mask}: {rule}")
            mask = np.ascontiguousarray(groups[:, 0]).view(np.uint8)
        observations, metrics = self._rows()
        self._envs.reset(seeds[:: self._flows], mask, observations, metrics)
        return observations, self._infos(metrics)

    def step(self, actions: Actions) -> tuple[Observations, Rewards, Flags, Flags, dict[str, Any]]:
        """Executes a step in each environment.

        Args:
            actions: one number for each, of shape `(num_envs, 1)`; for arms whole numbers, of shape
                `(num_envs,)`.

        Returns:
            Observations, rewards, which terminated, which were truncated, `info`.

        Raises:
            ValueError: if an action is not a number, or the number of actions is not that of
                environments. Then no environment has stepped.
            RuntimeError: with `AutoresetMode.DISABLED`, if an episode is over.
        """
        actions = np.ascontiguousarray(actions, np.float32)
        if actions.shape != self._actions_shape:
            rule = f"must have shape {self._actions_shape}, one number per environment"
            raise ValueError(f"`actions` have shape {actions.shape}: {rule}")
        observations, metrics = self._rows()
        rewards = np.empty(self.num_envs, np.float64)
        terminated = np.empty(self.num_envs, np.bool_)
        truncated = np.empty(self.num_envs, np.bool_)
        self._envs.step(
            actions,
            observations,
            rewards,
            terminated.view(np.uint8),
            truncated.view(np.uint8),
            metrics,
        )
        infos = self._infos(metrics)
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            over = terminated | truncated
            if over.any():
                self._add_final(infos, over)
        return observations, rewards, terminated, truncated, infos

    def _rows(self) -> tuple[Observations, NDArray[np.float64]]:
        observations = np.empty(self._shape, np.float32) if self._out is None else self._out
        return observations, np.empty((self.num_envs, len(METRICS)), np.float64)

    def _infos(self, metrics: NDArray[np.float64]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for name, values in figures(metrics).items():
            infos[name] = values
            infos[f"_{name}"] = self._all
        return infos

    def _add_final(self, infos: dict[str, Any], over: Flags) -> None:
        """Adds what gymnasium's vector environments return for episodes that have just ended."""
        final = np.full(self.num_envs, None, dtype=object)
        metrics = np.zeros((self.num_envs, len(METRICS)), np.float64)
        for index in np.flatnonzero(over):
            observation = np.empty(self._shape[1], np.float32)
            metrics[index] = self._envs.last_of(int(index), observation)
            final[index] = observation
        infos["final_obs"], infos["_final_obs"] = final, over
        infos["final_info"], infos["_final_info"] = {}, over
        for name, values in figures(metrics).items():
            infos["final_info"][name] = values
            infos["final_info"][f"_{name}"] = over

    def __getstate__(self) -> dict[str, Any]:
        """What `pickle` stores: the state of each environment, for the native part."""
        state = self.__dict__.copy()
        del state["_envs"]
        return {**state, "_saved": self._envs.save()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Repeats the episodes of the environments that were pickled."""
        saved = state["_saved"]
        self.__dict__.update({name: state[name] for name in state if name != "_saved"})
        mode = self.autoreset_mode.value
        count = self.num_envs // self._flows
        self._envs = _native.Envs(self.settings.to_native(), count, self._threads, mode)
        self._envs.restore(saved)

    def baseline(self, driver: str, seed: int) -> Baseline:
        """As `CongestionEnv.baseline`, of one simulation."""
        return played(*self._envs.baseline(driver, seed))

    @property
    def packets_sent(self) -> int:
        """Data packets that all flows of all episodes have sent."""
        return self._envs.packets_sent
