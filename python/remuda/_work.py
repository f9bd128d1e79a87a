"""Runs jobs of `remuda matrix` in a Ray worker."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass

from remuda._native import BUILD, Worker

WORKER = Worker(sys.executable)
"""Keeps authors' processes alive between batches."""


@dataclass
class Answer:
    """The results of a batch of jobs."""

    build: str
    """The build of the worker. If it differs from the requested one, the worker has run nothing."""
    took_s: float
    """How long all jobs took together."""
    lines: list[str]
    """One message to the command for each job."""


def run_batch(build: str, works: list[tuple[int, str]], names: list[str], *texts: str) -> Answer:
    """Runs jobs, one after the other; `texts` are traces and authors' files with these names."""
    if build != BUILD:
        return Answer(BUILD, 0.0, [])
    started = time.perf_counter()
    named = dict(zip(names, texts, strict=True))
    lines = [line(index, work, named) for index, work in works]
    return Answer(BUILD, time.perf_counter() - started, lines)


def line(index: int, work: str, texts: dict[str, str]) -> str:
    """Runs one job. Returns the message with its row or its error."""
    try:
        # The row is not parsed: JSON that is read and written again might have other digits.
        return f'{{"done":{{"index":{index},"row":{WORKER.run(work, texts)}}}}}'
    except ValueError as error:
        return failed(index, str(error))


def failed(index: int, why: str) -> str:
    """The message that a job has failed."""
    return json.dumps({"failed": {"index": index, "why": why}})
