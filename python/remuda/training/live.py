"""Reads the agent's samples of live flows, and computes the outcome of each arm.

The agent writes JSON lines (`ccp-agent/src/samples`): a head, then a row for each sample of a flow.
A file may grow or vanish during reading, and its content is not trusted: a line or a file that
breaks a rule is left out and counted, and never ends the reading.

An outcome is a state of a flow (its features at the end of a sample) and what the arm that drove
the flow from there on achieved, as long as it drove the flow, up to the horizon.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from . import values
from .samples import Floats, Numbers, Singles

FORMAT = 1
"""The version of the agent's file format."""
NAME = re.compile(r"samples-(\d{1,20})\.jsonl")
LINE_MAX = 1 << 16
"""The longest line in bytes. The agent's own lines have about 700."""
BYTES_MAX = 256 << 20
"""Only this many of the newest bytes are read: about 400,000 rows, which must fit into memory."""
NUMBERS = (
    "from_s",
    "until_s",
    "seen_throughput_mbit_per_sec",
    "seen_lost_mbit_per_sec",
    "seen_rtt_mean_ms",
)
MOST = (1e8, 1e8, 1e5, 1e5, 6e4)
"""The largest plausible value of each: three years, and the schema's bounds of rates and round
trips. The smallest is 0."""
FEATURE_MAX = 1e9
"""The schema's widest bound of a feature."""
FOLLOWS_S = 1e-6
"""The rounding error in times: a sample begins at the end of the previous one."""
GAP_MAX_S = 1.0
"""Samples further apart than this do not follow each other."""
HORIZON_S = 12.0
"""The longest outcome in seconds, as in the training of values."""
LEAST_S = 4.0
"""The shortest outcome in seconds."""
FLOW_ROWS_MAX = 100
"""The most outcomes of a flow, evenly over its life: one flow shall not dominate the model."""
VALUE_MAX = 12.0
"""The largest plausible value: 160,000 times the largest earlier rate."""


@dataclass
class Count:
    """What was read, and what was left out with the reason."""

    files: int = 0
    rows: int = 0
    flows: int = 0
    outcomes: int = 0
    files_left_out: dict[str, str] = field(default_factory=dict)
    """The reason for each name."""
    left_out: Counter[str] = field(default_factory=Counter)
    """The number of left-out lines and outcomes for each reason."""

    def lines(self) -> list[str]:
        """The lines to print."""
        whole = f"{self.outcomes} outcomes of {self.flows} flows: {self.rows} rows"
        lines = [f"{whole} in {self.files} files"]
        lines += [f"left out: {name}: {why}" for name, why in self.files_left_out.items()]
        return lines + [f"left out: {n} times: {why}" for why, n in self.left_out.most_common()]


@dataclass(frozen=True)
class Rows:
    """Some rows, in the order of a file, or of one flow."""

    flow: Numbers
    """The number that the agent gave the flow."""
    arm: Numbers
    """The index of the arm in the model."""
    numbers: Floats
    """rows x 5: as `NUMBERS`."""
    features: Singles
    """rows x features; NaN is an unknown value."""

    def only(self, places: Numbers) -> Rows:
        """The rows at these indices."""
        features = self.features[places]
        return Rows(self.flow[places], self.arm[places], self.numbers[places], features)


@dataclass(frozen=True)
class File:
    """The content of a file."""

    began_unix_us: int
    names: list[str]
    """The names of the features."""
    rows: Rows


@dataclass(frozen=True)
class Outcomes:
    """One row for each state: the arm that drove the flow from there on, and the outcome."""

    flow: Numbers
    """The index into `names`."""
    names: list[str]
    """The names of the flows, in the order of their starts."""
    arm: Numbers
    features: Singles
    value: dict[str, Floats]
    """By kind, as in `values`."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.flow)

    def only(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Outcomes:
        """The rows that the mask selects."""
        value = {kind: of[mask] for kind, of in self.value.items()}
        return Outcomes(self.flow[mask], self.names, self.arm[mask], self.features[mask], value)


def read(folder: Path, schema_hash: str, width: int, arms: list[str]) -> tuple[Outcomes, Count]:
    """The outcomes in a folder with `width` features of this schema, of these arms only.

    Raises:
        OSError: if the folder does not exist or cannot be read.
    """
    count = Count()
    files = _of_one_form(_files(folder, schema_hash, (width, arms), count), count)
    flows = _flows(files, count)
    names = files[0].names if files else []
    found: list[tuple[str, Rows, dict[str, Floats]]] = []
    for name, rows in flows:
        states, value = _of_flow(rows, names, count)
        if len(states.arm):
            found.append((name, states, value))
    empty = Rows(*(np.zeros(0, dtype=np.int64),) * 2, np.zeros((0, 5)), _no_features(width))
    each = [states for _, states, _ in found] or [empty]
    outcomes = Outcomes(
        np.repeat(np.arange(len(found)), [len(states.arm) for _, states, _ in found]),
        [name for name, _, _ in found],
        np.concatenate([states.arm for states in each]),
        np.concatenate([states.features for states in each]),
        {
            kind: np.concatenate([value[kind] for _, _, value in found] or [np.zeros(0)])
            for kind in values.KINDS
        },
    )
    count.files, count.flows, count.outcomes = len(files), len(found), len(outcomes)
    return outcomes, count


def _no_features(width: int) -> Singles:
    return np.zeros((0, width), dtype=np.float32)


def _files(folder: Path, schema_hash: str, form: tuple[int, list[str]], count: Count) -> list[File]:
    """The files that can be used, the oldest first."""
    numbered = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    ordered = sorted((int(name[1]), path) for name, path in numbered if name)
    found: list[File] = []
    budget = BYTES_MAX
    # The newest files come first: if there are too many bytes, old ones are left out.
    for _, path in reversed(ordered):
        if budget <= 0:
            count.files_left_out[path.name] = f"the newest {BYTES_MAX >> 20} MiB are read"
            continue
        left_out: Counter[str] = Counter()
        try:
            with _open(path) as file:
                size = os.fstat(file.fileno()).st_size
                began, names = _head(file.readline(LINE_MAX), schema_hash, form[0])
                rows = _rows(_lines(file, size, budget, left_out), form, left_out)
        except (OSError, ValueError, RecursionError) as error:
            count.files_left_out[path.name] = str(error)[:200]
            continue
        budget -= size
        count.left_out += left_out
        count.rows += len(rows.arm)
        found.append(File(began, names, rows))
    return found[::-1]


def _open(path: Path) -> IO[bytes]:
    # Neither follows a link nor waits for a pipe that somebody else has put there.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it must be a regular file")
    return file


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _object(line: bytes) -> dict[str, Any]:
    read: object = json.loads(line, parse_constant=_no_constant)
    if not isinstance(read, dict):
        raise ValueError("it must be an object")
    return read


def _head(line: bytes, schema_hash: str, width: int) -> tuple[int, list[str]]:
    """When the file began, in µs since 1970, and the names of the features."""
    if not line.endswith(b"\n"):
        raise ValueError("its first line is incomplete")
    head = _object(line)
    if head.get("format") != FORMAT:
        raise ValueError(f"format {ascii(head.get('format'))[:20]}: it must be {FORMAT}")
    if head.get("schema_hash") != schema_hash:
        theirs = ascii(head.get("schema_hash"))[:14]
        raise ValueError(f"its features are of another schema, {theirs}, not {schema_hash[:12]}")
    began, names = head.get("began_unix_us"), head.get("features")
    if type(began) is not int or not 0 <= began < 1 << 63:
        raise ValueError("began_unix_us must be a time")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("features must be names")
    if len(names) != width or len(set(names)) != width:
        raise ValueError(f"features must be {width} names, as in the model")
    if values.RATE_MAX not in names or values.RTT_MIN not in names:
        raise ValueError(f"features must have {values.RATE_MAX} and {values.RTT_MIN}")
    return began, names


def _lines(file: IO[bytes], size: int, budget: int, left_out: Counter[str]) -> Iterator[bytes]:
    """Complete lines that existed when the file was opened; of a large file only the last ones."""
    if size - file.tell() > budget:
        file.seek(size - budget)
        _skip(file)
    while file.tell() < size:
        line = file.readline(LINE_MAX)
        if line.endswith(b"\n"):
            yield line
        elif len(line) == LINE_MAX:
            left_out[f"a line is longer than {LINE_MAX} bytes"] += 1
            _skip(file)
        else:
            return  # the line is being written, or was cut off


def _skip(file: IO[bytes]) -> None:
    """Reads up to the end of the line."""
    while (part := file.readline(LINE_MAX)) and not part.endswith(b"\n"):
        pass


def _rows(lines: Iterator[bytes], form: tuple[int, list[str]], left_out: Counter[str]) -> Rows:
    width, arms = form
    places = {arm: place for place, arm in enumerate(arms)}
    flow, arm, numbers, features = [], [], [], []
    for line in lines:
        try:
            parsed = _object(line)
        except (ValueError, RecursionError):
            left_out["a line is not a JSON object"] += 1
            continue
        try:
            row = _row(parsed, places, width)
        except ValueError as error:
            left_out[str(error)] += 1
            continue
        flow.append(row[0])
        arm.append(row[1])
        numbers.append(row[2])
        features.append(np.array(row[3], dtype=np.float32))
    return Rows(
        np.array(flow, dtype=np.int64),
        np.array(arm, dtype=np.int64),
        np.array(numbers, dtype=float).reshape(-1, len(NUMBERS)),
        np.array(features, dtype=np.float32).reshape(-1, width),
    )


def _is_number(value: object, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most  # type: ignore[operator]


def _row(
    row: dict[str, Any], places: dict[str, int], width: int
) -> tuple[int, int, list[float], list[float]]:
    """Flow, arm, numbers and features of a line. Errors have few different texts, to be counted."""
    flow, arm, features = row.get("flow"), row.get("arm"), row.get("features")
    if type(flow) is not int or not 0 <= flow < 1 << 32:
        raise ValueError("flow must be a number of 32 bits")
    if not isinstance(arm, str) or arm not in places:
        raise ValueError("its arm is not one of the model's")
    numbers = [row.get(name) for name in NUMBERS]
    for name, value, most in zip(NUMBERS, numbers, MOST, strict=True):
        if not _is_number(value, 0.0, most):
            raise ValueError(f"{name} must be a number from 0 to {most:g}")
    if not numbers[0] < numbers[1]:  # type: ignore[operator]
        raise ValueError("until_s must be after from_s")
    if not isinstance(features, list) or len(features) != width:
        raise ValueError(f"features must be {width} numbers")
    if not all(it is None or _is_number(it, -FEATURE_MAX, FEATURE_MAX) for it in features):
        raise ValueError(f"a feature must be null, or a number within {FEATURE_MAX:g}")
    known = [math.nan if it is None else float(it) for it in features]
    return flow, places[arm], [float(it) for it in numbers if it is not None], known


def _of_one_form(files: list[File], count: Count) -> list[File]:
    """The files whose features have the same names as those of most rows."""
    if not files:
        return []
    by_names: Counter[tuple[str, ...]] = Counter()
    for file in files:
        by_names[tuple(file.names)] += len(file.rows.arm)
    (names, _), *others = by_names.most_common()
    if others:
        count.left_out["a file has other feature names than most"] += len(others)
    return [file for file in files if tuple(file.names) == names]


def _flows(files: list[File], count: Count) -> list[tuple[str, Rows]]:
    """The rows of each flow, in the order of time; each flow gets a unique name.

    Each agent numbers its flows from 1 on. The same number in a later file is the same flow if its
    time continues there to the microsecond, and another flow if not.
    """
    names: list[str] = []
    taken: list[list[int]] = []
    last: dict[int, tuple[int, float, int]] = {}
    place = -1
    for at, file in enumerate(files):
        spans = file.rows.numbers[:, :2].tolist()
        for number, (from_s, until_s) in zip(file.rows.flow.tolist(), spans, strict=True):
            place += 1
            flow, before_s, seen_in = last.get(number, (-1, 0.0, -1))
            if flow < 0 or (seen_in < at and abs(from_s - before_s) > FOLLOWS_S):
                flow = len(names)
                names.append(f"{file.began_unix_us}:{number}")
                taken.append([])
            elif from_s < before_s - FOLLOWS_S:
                count.left_out["a flow's time goes backwards"] += 1
                continue
            last[number] = (flow, until_s, at)
            taken[flow].append(place)
    all_rows = [file.rows for file in files]
    if not all_rows:
        return []
    whole = Rows(
        np.concatenate([rows.flow for rows in all_rows]),
        np.concatenate([rows.arm for rows in all_rows]),
        np.concatenate([rows.numbers for rows in all_rows]),
        np.concatenate([rows.features for rows in all_rows]),
    )
    each = zip(names, taken, strict=True)
    return [(name, whole.only(np.array(places))) for name, places in each]


def _of_flow(rows: Rows, names: list[str], count: Count) -> tuple[Rows, dict[str, Floats]]:
    """The states of a flow that have an outcome, each with the arm that drove the flow next."""
    from_s, until_s, rate, lost, rtt_ms = rows.numbers.T
    span_s = until_s - from_s
    weight = np.where(rtt_ms > 0, rate * span_s, 0.0)
    summed = np.stack([span_s, rate * span_s, lost * span_s, rtt_ms * weight, weight])
    sums = np.hstack([np.zeros((5, 1)), summed.cumsum(axis=1)])
    follows = from_s[1:] - until_s[:-1] <= GAP_MAX_S
    breaks = np.flatnonzero(~follows | (rows.arm[1:] != rows.arm[:-1])) + 1
    ends = np.append(breaks, len(from_s))
    # A state is the end of a row; its outcome begins with the next row.
    state = np.flatnonzero(follows)
    first = state + 1
    within = np.searchsorted(until_s, until_s[state] + HORIZON_S + FOLLOWS_S, side="right")
    end = np.minimum(within, ends[np.searchsorted(ends, first, side="right")])
    end = np.maximum(end, first)
    span, delivered, gone, delay, weighed = sums[:, end] - sums[:, first]
    usable = (span >= LEAST_S) & (weighed > 0) & values.known(rows.features[state], names)
    state, first = state[usable], first[usable]
    throughput = np.maximum(delivered - gone, 0.0)[usable] / span[usable]
    mean_ms = delay[usable] / weighed[usable]
    value = values.of(rows.features[state], names, throughput, mean_ms)
    plausible = np.all([np.abs(of) <= VALUE_MAX for of in value.values()], axis=0)
    if not plausible.all():
        count.left_out["an outcome is not plausible"] += int((~plausible).sum())
    some = np.flatnonzero(plausible)
    if len(some) > FLOW_ROWS_MAX:
        some = some[np.linspace(0, len(some) - 1, FLOW_ROWS_MAX).astype(int)]
    states = rows.only(state[some])
    states = Rows(states.flow, rows.arm[first[some]], states.numbers, states.features)
    return states, {kind: of[some] for kind, of in value.items()}
