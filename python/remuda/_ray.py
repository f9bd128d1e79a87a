"""Runs jobs of `remuda matrix` on a Ray cluster: `python -P -m remuda._ray`.

The command tells a JSON object a line, and hears one: the head of `emulation/matrix/src/remote.rs`
has all of them. Jobs go to workers by the batch, as long runs one by one and short ones together,
and a batch whose worker dies is given to another. The end of our input is ours.
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
"""A task costs some milliseconds; a worker that dies costs a batch."""
BATCH_MAX = 32
"""So many rows are below the 100 kB that Ray hands over without storing them."""
DEATHS_MAX = 16
"""A run whose workers die so often is what they die of."""
LOOK_S = 0.05
"""How often the command is listened to while runs are under way."""
CLUSTER_LOOK_S = 5.0
"""How often it is looked whether the cluster has grown."""
CONNECT_S = 10.0
"""As long as a far machine may take to answer at all."""
STORE_BYTES = 2**28
"""What a cluster of our own keeps in memory: traces and authors' files, and little else."""

FIX = "fix: install remuda[ray] of this build there"


class BrokenError(Exception):
    """Why nothing more can be run."""


@dataclass
class Job:
    """One run."""

    index: int
    work: str
    texts: list[str]


@dataclass
class Engine:
    """Hands jobs to workers."""

    ray: Any
    """The module."""
    say: Callable[[str], None]
    jobs: int | None
    """How many runs at a time; `None`: as many as the cluster has processors."""
    waiting: deque[Job] = field(default_factory=deque)
    alone: deque[Job] = field(default_factory=deque)
    """Of a batch that failed: each is to fail or not by itself."""
    under_way: dict[Any, list[Job]] = field(default_factory=dict)
    """What workers have, by what will be the answer."""
    texts: dict[str, Any] = field(default_factory=dict)
    """Where the cluster keeps traces and authors' files."""
    slots: int = 1
    ran: int = 0
    took_s: float = 0.0

    def __post_init__(self) -> None:
        """Looks at the cluster."""
        self.task = self.ray.remote(max_retries=DEATHS_MAX)(_work.run_batch)
        self.look()

    def look(self) -> bool:
        """Looks how many runs fit at a time; whether that has changed."""
        before = self.slots
        processors = int(self.ray.cluster_resources().get("CPU", 0))
        self.slots = max(1, self.jobs or processors)
        return self.slots != before

    @property
    def ahead(self) -> int:
        """How many jobs may be here at a time: two batches for each that runs."""
        return 2 * BATCH_MAX * self.slots

    def told(self, line: str) -> None:
        """Takes what the command says."""
        message = json.loads(line)
        if "text" in message:
            text = message["text"]
            self.texts[text["name"]] = self.ray.put(text["text"])
        else:
            self.waiting.append(Job(**message["job"]))

    def batch(self) -> list[Job]:
        """The next jobs for one worker."""
        if self.alone:
            return [self.alone.popleft()]
        size = 1
        if self.ran:
            fit = int(BATCH_S * self.ran / max(self.took_s, 1e-9))
            # The last ones are shared out.
            size = max(1, min(fit, BATCH_MAX, len(self.waiting) // self.slots))
        return [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]

    def give(self) -> None:
        """Gives out what waits: to each worker one batch, and one that is next."""
        most = self.jobs or 2 * self.slots
        while (self.waiting or self.alone) and len(self.under_way) < most:
            batch = self.batch()
            names = sorted({name for job in batch for name in job.texts})
            works = [(job.index, job.work) for job in batch]
            texts = [self.texts[name] for name in names]
            self.under_way[self.task.remote(BUILD, works, names, *texts)] = batch

    def gather(self) -> None:
        """Passes on what is done, if something is soon."""
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
        """No answer came of a batch: whose fault is it?"""
        why = str(error).strip()
        if "No module named 'remuda" in why:
            raise BrokenError(f"a worker has no package `remuda`\n{FIX}")
        if len(batch) > 1:
            self.alone.extend(batch)
        else:
            self.say(_work.failed(batch[0].index, why))

    def run(self, lines: queue.SimpleQueue[str | None]) -> None:
        """Goes on until the command has no more to say."""
        looked_at = time.monotonic()
        while True:
            line = next_of(lines, wait=not self.under_way)
            while line:
                self.told(line)
                line = next_of(lines, wait=False)
            if line is None:
                return
            self.give()
            if self.under_way:
                self.gather()
            if time.monotonic() - looked_at > CLUSTER_LOOK_S:
                looked_at = time.monotonic()
                if self.look():
                    self.say(json.dumps({"ahead": self.ahead}))


def next_of(lines: queue.SimpleQueue[str | None], *, wait: bool) -> str | None:
    """The next line; `None` is the end, and a text without anything that there is none yet."""
    try:
        return lines.get(block=wait)
    except queue.Empty:
        return ""


def read(
    source: Iterable[str], lines: queue.SimpleQueue[str | None], ready: threading.Event
) -> None:
    """Takes lines as they come, so that whoever writes them never waits."""
    for line in source:
        lines.put(line)
    if not ready.is_set():
        # Ray may look for a cluster for minutes; what it has started ends with us.
        os._exit(1)
    lines.put(None)


def check(address: str) -> None:
    """Whether somebody listens there: Ray itself would try for minutes, and say little."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
        pass


def start(ray: Any, address: str | None, jobs: int | None) -> None:  # noqa: ANN401
    """Joins the cluster, or starts one on this machine, which ends with us."""
    common = {"logging_level": logging.ERROR, "log_to_driver": True}
    if address is not None:
        try:
            check(address)
            ray.init(address=address, **common)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            fix = "fix: start it with `ray start`, or leave --ray-address out"
            raise BrokenError(f"no Ray cluster at {address}: {error}\n{fix}") from error
        return
    own = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    ray.init(address="local", num_cpus=jobs, **own, **common)


def imported() -> Any:  # noqa: ANN401
    """Ray, which is an extra."""
    # A matrix is nobody else's business.
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
    parser.add_argument("--address", help="the cluster; without, one of our own")
    parser.add_argument("--jobs", type=int, help="how many runs at a time")
    arguments = parser.parse_args()
    # Whatever else prints, also below us, prints to standard error.
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
