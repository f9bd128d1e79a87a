"""Runs jobs of `remuda matrix` on a Ray cluster: `python -P -m remuda._ray`.

The command writes one JSON object on each line of our standard input, and reads one on each line of
our standard output: `emulation/matrix/src/remote.rs` describes all of them. Workers get jobs in
batches: long runs alone, short runs together. If a worker dies, another one gets its batch. This
process ends when its input ends.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from remuda import _work
from remuda._native import BUILD

BATCH_S = 0.5
"""The duration of a batch: a task costs some milliseconds, and a worker that dies costs a batch."""
BATCH_MAX = 32
"""The rows of so many jobs stay below 100 kB, which Ray returns without storing them."""
DEATHS_MAX = 16
"""A run with which so many workers have died counts as the cause."""
LOOK_S = 0.05
"""How often the command's messages are read while runs are in progress."""
CLUSTER_LOOK_S = 5.0
"""How often the size of the cluster is checked."""
CONNECT_S = 10.0
"""The longest time in which a remote machine may answer."""
STORE_BYTES = 2**28
"""The memory of a local cluster's store, for little more than traces and authors' files."""

FIX = "fix: install remuda[ray] of this build there"


class BrokenError(Exception):
    """Why no more runs are possible."""


@dataclass
class Job:
    """One run: its number, its description, and the names of its texts."""

    index: int
    work: str
    texts: list[str]


@dataclass
class Engine:
    """Distributes jobs to workers."""

    ray: Any
    """The module `ray`."""
    say: Callable[[str], None]
    jobs: int | None
    """How many runs at a time; `None`: one for each processor of the cluster."""
    waiting: deque[Job] = field(default_factory=deque)
    alone: deque[Job] = field(default_factory=deque)
    """Jobs of a batch that failed: each runs alone, so that only the faulty one fails."""
    under_way: dict[Any, list[Job]] = field(default_factory=dict)
    """The jobs of each batch that a worker has, by the reference of its answer."""
    texts: dict[str, Any] = field(default_factory=dict)
    """References to traces and authors' files in the cluster's store."""
    slots: int = 1
    ran: int = 0
    took_s: float = 0.0

    def __post_init__(self) -> None:
        """Determines how many runs fit into the cluster."""
        self.task = self.ray.remote(max_retries=DEATHS_MAX)(_work.run_batch)
        self.update_slots()

    def update_slots(self) -> bool:
        """Determines how many runs fit at a time. Returns whether that has changed."""
        before = self.slots
        processors = int(self.ray.cluster_resources().get("CPU", 0))
        self.slots = max(1, self.jobs or processors)
        return self.slots != before

    @property
    def ahead(self) -> int:
        """How many jobs may wait here at a time: two batches for each run."""
        return 2 * BATCH_MAX * self.slots

    def receive(self, line: str) -> None:
        """Processes a message of the command."""
        message = json.loads(line)
        if "text" in message:
            text = message["text"]
            self.texts[text["name"]] = self.ray.put(text["text"])
        else:
            self.waiting.append(Job(**message["job"]))

    def batch(self) -> list[Job]:
        """The next jobs for one worker; removes them from the queue."""
        if self.alone:
            return [self.alone.popleft()]
        size = 1
        if self.ran:
            fit = int(BATCH_S * self.ran / max(self.took_s, 1e-9))
            # The last jobs are spread over all workers.
            size = max(1, min(fit, BATCH_MAX, len(self.waiting) // self.slots))
        return [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]

    def give(self) -> None:
        """Sends waiting jobs to workers: each gets one batch to run, and one that waits there."""
        most = self.jobs or 2 * self.slots
        while (self.waiting or self.alone) and len(self.under_way) < most:
            batch = self.batch()
            names = sorted({name for job in batch for name in job.texts})
            works = [(job.index, job.work) for job in batch]
            texts = [self.texts[name] for name in names]
            self.under_way[self.task.remote(BUILD, works, names, *texts)] = batch

    def gather(self) -> None:
        """Waits shortly, and passes on the results that have arrived."""
        refs = list(self.under_way)
        if not self.ray.wait(refs, num_returns=1, timeout=LOOK_S)[0]:
            return
        for ref in self.ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
            batch = self.under_way.pop(ref)
            try:
                answer = self.ray.get(ref)
            except Exception as error:
                self.failed(batch, error)
                continue
            if answer.build != BUILD:
                theirs = f"a worker is {answer.build}, and this is {BUILD}"
                raise BrokenError(f"{theirs}: their results may differ\n{FIX}")
            self.ran += len(batch)
            self.took_s += answer.took_s
            for line in answer.lines:
                self.say(line)

    def failed(self, batch: list[Job], error: Exception) -> None:
        """Handles a batch without an answer: finds out which job was the cause."""
        reason = str(error).strip()
        if "No module named 'remuda" in reason:
            raise BrokenError(f"a worker has no package `remuda`\n{FIX}")
        if len(batch) > 1:
            self.alone.extend(batch)
        else:
            self.say(_work.failed(batch[0].index, reason))

    def run(self, lines: queue.SimpleQueue[str | None]) -> None:
        """Runs jobs until the command ends the input."""
        looked_at = time.monotonic()
        while True:
            line = next_of(lines, wait=not self.under_way)
            while line:
                self.receive(line)
                line = next_of(lines, wait=False)
            if line is None:
                return
            self.give()
            if self.under_way:
                self.gather()
            if time.monotonic() - looked_at > CLUSTER_LOOK_S:
                looked_at = time.monotonic()
                if self.update_slots():
                    self.say(json.dumps({"ahead": self.ahead}))


def next_of(lines: queue.SimpleQueue[str | None], *, wait: bool) -> str | None:
    """The next line; `None` at the end of the input, and an empty text if no line has arrived."""
    try:
        return lines.get(block=wait)
    except queue.Empty:
        return ""


def read(
    source: Iterable[str], lines: queue.SimpleQueue[str | None], ready: threading.Event
) -> None:
    """Moves lines from `source` to `lines` as they arrive, so that the command never blocks."""
    for line in source:
        lines.put(line)
    if not ready.is_set():
        # Ray may try to find a cluster for minutes. What Ray has started ends with this process.
        os._exit(1)
    lines.put(None)


def check(address: str) -> None:
    """Fails if nothing listens at HOST:PORT: Ray would try for minutes, with unclear errors."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
        pass


def start(ray: Any, address: str | None, jobs: int | None) -> None:  # noqa: ANN401
    """Connects to the cluster, or starts one on this machine, which ends with this process."""
    common = {"logging_level": logging.ERROR, "log_to_driver": True}
    if address is not None:
        try:
            check(address)
            ray.init(address=address, **common)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            fix = "fix: start the cluster with `ray start`, or leave --ray-address out"
            raise BrokenError(f"no Ray cluster at {address}: {error}\n{fix}") from error
        return
    own = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    ray.init(address="local", num_cpus=jobs, **own, **common)


def imported() -> Any:  # noqa: ANN401
    """Imports Ray, which is an optional extra."""
    # Ray reports no usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        fix = f"fix: {sys.executable} -m pip install 'ray>=2.40,<3'"
        why = f"{error}: --engine ray needs the package's extra `ray`"
        raise BrokenError(f"{why}\n{fix}") from error
    return ray


def main() -> int:
    """Serves the command at our standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m remuda._ray", description=__doc__)
    parser.add_argument("--address", help="the cluster; without it, a new local one")
    parser.add_argument("--jobs", type=int, help="how many runs at a time")
    arguments = parser.parse_args()
    # Everything else that this process prints goes to standard error.
    output = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def say(line: str) -> None:
        print(line, file=output, flush=True)

    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ready = threading.Event()
    threading.Thread(target=read, args=(sys.stdin, lines, ready), daemon=True).start()
    ray = None
    try:
        say(json.dumps({"build": BUILD}))
        ray = imported()
        start(ray, arguments.address, arguments.jobs)
        engine = Engine(ray, say, arguments.jobs if arguments.address else None)
        ready.set()
        say(json.dumps({"ahead": engine.ahead}))
        engine.run(lines)
    except BrokenError as error:
        say(json.dumps({"broken": str(error)}))
        return 1
    except BrokenPipeError:
        return 1
    finally:
        if ray is not None:
            ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
