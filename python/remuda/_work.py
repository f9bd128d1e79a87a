"""What a Ray worker does with jobs of `remuda matrix`."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

from remuda._native import BUILD, Worker

WORKER = Worker(sys.executable)
"""Keeps authors' processes from batch to batch."""


@dataclass
class Answer:
    """What came of several jobs."""

    build: str
    """What the worker is built from; of another build than asked for, it has run nothing."""
    took_s: float
    """How long they took, all of them."""
    lines: list[str]
    """A message to the command for each."""


def run_batch(build: str, works: list[tuple[int, str]], names: list[str], *texts: str) -> Answer:
    """Runs jobs, one after the other; `texts` are traces and authors' files of these names."""
    if build != BUILD:
        return Answer(BUILD, 0.0, [])
    started = time.perf_counter()
    named = dict(zip(names, texts, strict=True))
    lines = [line(index, work, named) for index, work in works]
    return Answer(BUILD, time.perf_counter() - started, lines)


def line(index: int, work: str, texts: dict[str, str]) -> str:
    """Runs one job."""
    try:
        # The row goes on as it is: JSON read and written again might have other digits.
        return f'{{"done":{{"index":{index},"row":{WORKER.run(work, texts)}}}}}'
    except ValueError as error:
        return failed(index, str(error))


def failed(index: int, why: str) -> str:
    """Says that nothing came of a job."""
    return json.dumps({"failed": {"index": index, "why": why}})
