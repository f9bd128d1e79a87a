"""The part of `remuda` that is written in Rust. Use it through `remuda`."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from remuda.author import Measurement, PathState

__all__ = [
    "BUILD",
    "FAMILIES",
    "FEATURES",
    "METRICS",
    "SIZE_FEATURES",
    "Column",
    "Embedded",
    "Env",
    "Envs",
    "Pilot",
    "Result",
    "Scenario",
    "Table",
    "Worker",
    "__version__",
    "collect",
    "merits",
    "read",
    "run",
    "run_many",
]

__version__: str
BUILD: str
FAMILIES: tuple[tuple[str, str], ...]
FEATURES: tuple[tuple[str, str, float, float, str], ...]
METRICS: tuple[str, ...]
SIZE_FEATURES: tuple[tuple[str, str, float, float, str], ...]

_Path = str | PathLike[str]

@final
class Scenario:
    """Links, and flows over them. Immutable."""

    @classmethod
    def load(cls, path: _Path) -> Self:
        """Reads and checks a TOML file."""

    @classmethod
    def parse(cls, text: str, name: str = "scenario") -> Self:
        """Checks a TOML text; errors contain `name`."""

    @classmethod
    def from_dict(cls, table: dict[str, Any], name: str = "scenario") -> Self:
        """Checks a dict with the keys of a scenario file."""

    def to_toml(self) -> str:
        """The scenario as the text of a TOML file, with all values that have a default."""

    def with_seed(self, seed: int) -> Scenario:
        """The same scenario with another seed."""

    @property
    def name(self) -> str: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def link_names(self) -> list[str]:
        """In the order of the numbers of links in results."""

    @property
    def flow_names(self) -> list[str]:
        """In the order of the numbers of flows in results; a group has one name for each flow."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Table:
    """A table of a result. Immutable, and read without a copy.

    Libraries that support Arrow's PyCapsule interface accept it: `pyarrow.table(table)`,
    `polars.DataFrame(table)`.
    """

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_columns(self) -> int: ...
    @property
    def metadata(self) -> dict[str, str]:
        """Facts about the table: scenario, engine, seed, duration, version."""

    def to_numpy(self, column: str, *, zero_copy_only: bool = False) -> NDArray[Any]:
        """A column as a NumPy array.

        The array of a column of numbers shares the table's memory, and is read-only. Numbers with
        gaps (which become NaN) and texts (objects) are copied.

        Raises:
            KeyError: if the table has no column of this name.
            ValueError: if `zero_copy_only` is true and the array would be a copy.
        """

    def __getitem__(self, column: str, /) -> NDArray[Any]:
        """Returns `to_numpy(column)`."""

    def __contains__(self, column: str, /) -> bool: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Column:
    """A column of numbers as a Python buffer: the memory of a NumPy array of `Table`."""

    def __len__(self) -> int: ...

@final
class Result:
    """The result of a scenario."""

    @property
    def scenario(self) -> str:
        """The scenario's name."""

    @property
    def seed(self) -> int: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def flows(self) -> Table:
        """One row for each flow: goodput, round trips, losses."""

    @property
    def links(self) -> Table:
        """One row for each link: packets, drops, queueing."""

    @property
    def switches(self) -> Table:
        """One row for each change of a flow's arm."""

    @property
    def decisions(self) -> Table:
        """One row for each decision about a flow's arm: its effect and its reason."""

    @property
    def flow_samples(self) -> Table:
        """The time series of flows: window, pacing, round trip, every `sample_ms`."""

    @property
    def link_samples(self) -> Table:
        """The time series of links: queues, every `sample_ms`."""

    def summary(self) -> dict[str, Any]:
        """A few figures over all flows."""

    def write(self, folder: _Path) -> None:
        """Writes the tables into a folder, as Parquet files.

        Raises:
            OSError: if the folder or a file cannot be written.
        """

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

_AnyScenario = _Path | dict[str, Any] | Scenario

def run(scenario: _AnyScenario, seed: int | None = None) -> Result:
    """Runs a scenario in the simulator.

    Other Python threads run meanwhile. Ctrl-C ends the run.

    Args:
        scenario: the path of a TOML file, a dict with its keys, or a `Scenario`.
        seed: the seed, instead of the scenario's.

    Raises:
        ValueError: if the scenario breaks a rule; the message names the key and the rule.
        OSError: if a file cannot be read.
    """

def run_many(
    scenarios: Iterable[_AnyScenario],
    seeds: list[int] | None = None,
    jobs: int | None = None,
    config: str | None = None,
) -> list[Result]:
    """Runs scenarios in the simulator, several at a time.

    Args:
        scenarios: each as `run` accepts it.
        seeds: one seed for each scenario, instead of the scenario's.
        jobs: how many to run at a time; by default one for each core. It changes no result.
        config: the text of a configuration file of the agent: the settings of guard, arms and
            policies; by default those of `remuda agent --print-config`.

    Returns:
        The results in the order of the scenarios.

    Raises:
        ValueError: if a scenario or `config` breaks a rule; the message names key and rule.
        OSError: if a file cannot be read.
    """

@final
class Worker:
    """Runs jobs of `remuda matrix` in the simulator, one after the other.

    Args:
        python: the Python that runs authors' files.
    """

    def __new__(cls, python: _Path) -> Self: ...
    def run(self, work: str, texts: dict[str, str]) -> str:
        """Runs a job.

        Args:
            work: the job, as the command describes it.
            texts: the traces and authors' files of the job, by name.

        Returns:
            The row of the job, as JSON.

        Raises:
            ValueError: if the job fails; the message contains the reason.
        """

def merits(
    goodput: NDArray[np.float64],
    delay: NDArray[np.float64],
    loss: NDArray[np.float64],
    harm: NDArray[np.float64],
    out: NDArray[np.float64],
    preference: tuple[float, float],
) -> None:
    """Writes the merit by which arms are ranked, of each row.

    Args:
        goodput: over an equal share of what the bottleneck could carry.
        delay: mean one-way delay over that of the path without a queue.
        loss: payload lost over payload sent, 0 to 1.
        harm: 1 less what the neighbours had of an equal share, 0 to 1.
        out: an array of the same length, which is overwritten.
        preference: how much throughput and delay count, each 0 to 1.

    Raises:
        ValueError: if the arrays differ in length, or a weight is not from 0 to 1.
    """

def collect(folder: _Path, seeds: tuple[int, int], plans: int, about: dict[str, str]) -> None:
    """Simulates environments into a folder, as `remuda train antelope --collect` does.

    Args:
        folder: where the files are written; a file that is there already and the same is kept.
        seeds: the seed of the first environment, and the seed after the last one.
        plans: runs of each environment in which arms change at random.
        about: facts that the files contain beside their settings.

    Raises:
        ValueError: if an environment cannot be simulated, or a file cannot be written.
    """

def read(folder: _Path) -> Result:
    """Reads one run that `Result.write` has written, or `remuda sim --out` in NAME-seedN.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the tables are of several runs, or not tables of remuda.
    """

@final
class Env:
    """One environment; `remuda.CongestionEnv` uses it."""

    def __new__(cls, settings: Mapping[str, Any]) -> Self: ...
    @property
    def observation_len(self) -> int: ...
    @property
    def packets_sent(self) -> int: ...
    def reset(self, seed: int | None, observation: NDArray[np.float32]) -> dict[str, float]: ...
    def step(
        self, action: float, observation: NDArray[np.float32]
    ) -> tuple[float, bool, bool, dict[str, float]]: ...
    @property
    def flows(self) -> int: ...
    def step_all(
        self,
        actions: NDArray[np.float32],
        observations: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.uint8],
        truncated: NDArray[np.uint8],
        metrics: NDArray[np.float64],
    ) -> bool: ...
    def metrics(self) -> list[float]: ...
    def baseline(self, driver: str, seed: int) -> tuple[int, list[float], list[float]]: ...
    def save(self) -> bytes: ...
    def restore(self, saved: bytes) -> None: ...

@final
class Envs:
    """Many environments; `remuda.CongestionVecEnv` uses it."""

    def __new__(
        cls,
        settings: Mapping[str, Any],
        count: int,
        threads: int,
        autoreset: str,
    ) -> Self: ...
    @property
    def observation_len(self) -> int: ...
    @property
    def packets_sent(self) -> int: ...
    def reset(
        self,
        seeds: list[int | None],
        mask: NDArray[np.uint8] | None,
        observations: NDArray[np.float32],
        metrics: NDArray[np.float64],
    ) -> None: ...
    def step(
        self,
        actions: NDArray[np.float32],
        observations: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.uint8],
        truncated: NDArray[np.uint8],
        metrics: NDArray[np.float64],
    ) -> None: ...
    def last_of(self, index: int, observation: NDArray[np.float32]) -> list[float]: ...
    def baseline(self, driver: str, seed: int) -> tuple[int, list[float], list[float]]: ...
    def save(self) -> list[bytes]: ...
    def restore(self, saved: list[bytes]) -> None: ...

@final
class Embedded:
    """A built-in arm; `remuda.Embedded` uses it. Decisions are a window and a rate."""

    def __new__(cls, name: str) -> Self: ...
    def resume(self, path: PathState, now_s: float) -> tuple[int, int | None]: ...
    def on_measurement(self, report: Measurement, now_s: float) -> tuple[int, int | None]: ...
    def hand_off(self) -> tuple[int, int | None, int | None]: ...

@final
class Pilot:
    """What a deployed policy sees of its flow; `remuda.PolicyArm` uses it."""

    def __new__(cls, settings: Mapping[str, Any]) -> Self: ...
    @property
    def observation_len(self) -> int: ...
    def resume(
        self, now_s: float, mss_bytes: int, cwnd_bytes: int, srtt_s: float | None
    ) -> tuple[int, int | None]: ...
    def report(
        self,
        now_s: float,
        delivered: int,
        lost: int,
        ecn_marked: int,
        in_flight: int,
        send_rate: int,
        delivery_rate: int,
        rtt: tuple[float, float, int] | None,
        observation: NDArray[np.float32],
    ) -> bool: ...
    def act(self, action: float, srtt_s: float | None) -> tuple[int, int | None]: ...
