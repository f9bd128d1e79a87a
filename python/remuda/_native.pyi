"""What of `remuda` is written in Rust. Use it through `remuda`."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BUILD",
    "FEATURES",
    "METRICS",
    "Column",
    "Env",
    "Envs",
    "Result",
    "Scenario",
    "Table",
    "Worker",
    "__version__",
    "collect",
    "read",
    "run",
    "run_many",
]

__version__: str
BUILD: str
FEATURES: tuple[tuple[str, str, float, float, str], ...]
METRICS: tuple[str, ...]

_Path = str | PathLike[str]

@final
class Scenario:
    """What is to happen: links, and flows over them. It never changes."""

    @classmethod
    def load(cls, path: _Path) -> Self:
        """Reads and checks a TOML file."""

    @classmethod
    def parse(cls, text: str, name: str = "scenario") -> Self:
        """Checks a TOML text; `name` is what errors call it."""

    @classmethod
    def from_dict(cls, table: dict[str, Any], name: str = "scenario") -> Self:
        """Checks a dict with the keys of a scenario file."""

    def to_toml(self) -> str:
        """As a file says it, with every value that has a default."""

    def with_seed(self, seed: int) -> Scenario:
        """The same with another seed."""

    @property
    def name(self) -> str: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def link_names(self) -> list[str]:
        """In the order in which results number them."""

    @property
    def flow_names(self) -> list[str]:
        """In the order in which results number them: groups counted out."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Table:
    """A table of a result. It never changes, and is read without a copy.

    Anything that speaks Arrow's PyCapsule interface takes it: `pyarrow.table(table)`,
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
        """What the table says of itself: scenario, engine, seed, duration, version."""

    def to_numpy(self, column: str, *, zero_copy_only: bool = False) -> NDArray[Any]:
        """A column as a NumPy array.

        Numbers are seen where they lie, read-only, without a copy. Copies are: numbers with gaps
        (which become NaN) and texts (objects).

        Raises:
            KeyError: if there is no such column.
            ValueError: if it would be a copy, and `zero_copy_only` is true.
        """

    def __getitem__(self, column: str, /) -> NDArray[Any]:
        """The same as `to_numpy(column)`."""

    def __contains__(self, column: str, /) -> bool: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Column:
    """A column of numbers, as Python's buffers are: what a NumPy array of `Table` rests on."""

    def __len__(self) -> int: ...

@final
class Result:
    """What came of a scenario."""

    @property
    def scenario(self) -> str:
        """The scenario's name."""

    @property
    def seed(self) -> int: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def flows(self) -> Table:
        """A row a flow: goodput, round trips, losses."""

    @property
    def links(self) -> Table:
        """A row a link: packets, drops, queueing."""

    @property
    def switches(self) -> Table:
        """A row a change of a flow's arm."""

    @property
    def decisions(self) -> Table:
        """A row a decision about a flow's arm: what became of it, and why."""

    @property
    def flow_samples(self) -> Table:
        """The time series of flows: window, pacing, round trip, every `sample_ms`."""

    @property
    def link_samples(self) -> Table:
        """The time series of links: queues, every `sample_ms`."""

    def summary(self) -> dict[str, Any]:
        """All flows together, in a few figures."""

    def write(self, folder: _Path) -> None:
        """Writes its tables into a folder, as Parquet.

        Raises:
            OSError: if the file system refuses.
        """

    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

_AnyScenario = _Path | dict[str, Any] | Scenario

def run(scenario: _AnyScenario, seed: int | None = None) -> Result:
    """Runs a scenario in the simulator.

    Other threads go on meanwhile, and Ctrl-C ends it.

    Args:
        scenario: a TOML file's path, a dict with its keys, or a `Scenario`.
        seed: instead of the scenario's own.

    Raises:
        ValueError: if the scenario breaks a rule; it names key and rule.
        OSError: if a file cannot be read.
    """

def run_many(
    scenarios: Iterable[_AnyScenario],
    seeds: list[int] | None = None,
    jobs: int | None = None,
) -> list[Result]:
    """Runs scenarios in the simulator, several at a time.

    Args:
        scenarios: what `run` takes, each of them.
        seeds: one for each scenario, instead of their own.
        jobs: how many at a time; without, one for each core. It changes no result.

    Returns:
        Results in the order of scenarios.

    Raises:
        ValueError: if a scenario breaks a rule; it names key and rule.
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
            work: the job, as the command says it.
            texts: each of its traces and authors' files, by name.

        Returns:
            Its row, as JSON.

        Raises:
            ValueError: if nothing comes of it; it says why.
        """

def collect(folder: _Path, seeds: tuple[int, int], plans: int, about: dict[str, str]) -> None:
    """Simulates environments into a folder, as `remuda train antelope --collect` does.

    Args:
        folder: where the files go; what is there already, and the same, is kept.
        seeds: of the first environment, and the one after the last.
        plans: runs of each environment in which arms take random turns.
        about: what the files are to say of themselves beside their settings.

    Raises:
        ValueError: if an environment cannot be simulated, or a file cannot be written.
    """

def read(folder: _Path) -> Result:
    """Reads one run: what `Result.write` has written, or `remuda sim --out` in NAME-seedN.

    Raises:
        OSError: if the file system refuses.
        ValueError: if its tables are of several runs, or none of remuda's.
    """

@final
class Env:
    """One environment: `remuda.CongestionEnv` is made of it."""

    def __new__(cls, settings: Mapping[str, Any]) -> Self: ...
    @property
    def observation_len(self) -> int: ...
    @property
    def packets_sent(self) -> int: ...
    def reset(self, seed: int | None, observation: NDArray[np.float32]) -> dict[str, float]: ...
    def step(
        self, action: float, observation: NDArray[np.float32]
    ) -> tuple[float, bool, bool, dict[str, float]]: ...

@final
class Envs:
    """Many environments: `remuda.CongestionVecEnv` is made of it."""

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
