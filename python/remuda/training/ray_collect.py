"""Collects samples for training on a Ray cluster: `python -P -m remuda.training.ray_collect`.

Reads and writes lines of JSON. The first line of the input is the task, `{"folder": DIR, "plans":
N, "about": {..}, "seeds": [[FROM, TO], ..]}`; this process ends when its input ends. It writes its
`build` first, then `done` with the seeds of each complete file that it has stored, and `broken`
with the reason if it cannot continue.

A Ray task simulates the environments of one file in its own folder, with the same code as `remuda
train antelope --collect` on this machine, and returns the bytes of the file, which are the same. If
a worker dies, only its current file is made again. Workers need the package of the same build with
its extra `ray`, but not the packages for training.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda._native import BUILD, collect
from remuda._ray import DEATHS_MAX, FIX, LOOK_S, BrokenError, imported, start

from . import atomic

AHEAD = 2
"""The number of tasks for each processor: one runs, and one waits."""
BYTES_MAX = 64 << 20
"""The most bytes of a file. A file of 25 environments has about 2 MB."""


@dataclass(frozen=True)
class Task:
    """What to collect."""

    folder: Path
    plans: int
    about: dict[str, str]
    """Facts that each file contains."""
    seeds: list[tuple[int, int]]
    """The first seed of each file, and the seed after its last one."""

    @staticmethod
    def read(line: str) -> Task:
        """Parses the command's line."""
        message = json.loads(line)
        seeds = [(first, end) for first, end in message["seeds"]]
        return Task(Path(message["folder"]), message["plans"], message["about"], seeds)


def simulated(
    build: str, seeds: tuple[int, int], plans: int, about: dict[str, str]
) -> tuple[str, bytes]:
    """Runs in a worker: returns its build, and a file's bytes; no bytes if the build differs."""
    if build != BUILD:
        return BUILD, b""
    with tempfile.TemporaryDirectory() as folder:
        collect(folder, seeds, plans, about)
        (file,) = Path(folder).glob("samples-*.parquet")
        return BUILD, file.read_bytes()


def gathered(ray: Any, ref: Any, seeds: tuple[int, int]) -> bytes:  # noqa: ANN401
    """The bytes of a file that a worker has made."""
    try:
        build, text = ray.get(ref)
    except Exception as error:
        why = str(error).strip()
        if "No module named 'remuda" in why:
            raise BrokenError(f"a worker has no package `remuda`\n{FIX}") from error
        raise BrokenError(f"environments {seeds[0]} to {seeds[1] - 1}: {why}") from error
    if build != BUILD:
        theirs = f"a worker is {build}, and this is {BUILD}"
        raise BrokenError(f"{theirs}: their results may differ\n{FIX}")
    if not 0 < len(text) <= BYTES_MAX:
        raise BrokenError(f"environments {seeds[0]} to {seeds[1] - 1}: {len(text)} bytes came back")
    return bytes(text)


def run(
    ray: Any,  # noqa: ANN401
    task: Task,
    at_once: Callable[[], int],
    say: Callable[[dict[str, Any]], None],
    stopped: threading.Event,
) -> None:
    """Makes all files, `at_once` at a time, until `stopped` is set.

    Raises:
        BrokenError: if no more files can be made, with the reason.
        OSError: if a file cannot be written.
    """
    remote = ray.remote(max_retries=DEATHS_MAX)(simulated)
    waiting = deque(task.seeds)
    under_way: dict[Any, tuple[int, int]] = {}
    while (waiting or under_way) and not stopped.is_set():
        while waiting and len(under_way) < at_once():
            seeds = waiting.popleft()
            under_way[remote.remote(BUILD, seeds, task.plans, task.about)] = seeds
        for ref in ray.wait(list(under_way), num_returns=1, timeout=LOOK_S)[0]:
            seeds = under_way.pop(ref)
            path = task.folder / f"samples-{seeds[0]}-{seeds[1]}.parquet"
            atomic.write(path, gathered(ray, ref, seeds))
            say({"done": seeds})


def main() -> int:
    """Serves the command at our standard input and output."""
    about = "Collects samples for training on a Ray cluster."
    parser = argparse.ArgumentParser(
        description=about, prog="python -m remuda.training.ray_collect"
    )
    parser.add_argument("--address", help="the cluster; without it, a new local one")
    parser.add_argument("--jobs", type=int, help="how many files at a time")
    arguments = parser.parse_args()
    # Everything else that this process prints goes to standard error.
    output = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    stopped, ready = threading.Event(), threading.Event()

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=output, flush=True)

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stopped.set()
        if not ready.is_set():
            # Ray may try to find a cluster for minutes. What Ray has started ends with this
            # process.
            os._exit(1)

    ray = None
    try:
        say({"build": BUILD})
        task = Task.read(sys.stdin.readline())
        threading.Thread(target=wait_for_the_end, daemon=True).start()
        ray = imported()
        start(ray, arguments.address, arguments.jobs)
        ready.set()

        def at_once() -> int:
            processors = int(ray.cluster_resources().get("CPU", 0))
            return arguments.jobs or AHEAD * max(1, processors)

        run(ray, task, at_once, say, stopped)
    except (BrokenError, OSError) as error:
        if not isinstance(error, BrokenPipeError):
            say({"broken": str(error)})
        return 1
    finally:
        if ray is not None:
            ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
