"""Collects samples for training on a Ray cluster: `python -P -m remuda.training.ray_collect`.

Hears lines of JSON, and says such. First comes what is to be done, `{"folder": DIR, "plans": N,
"about": {..}, "seeds": [[FROM, TO], ..]}`; then the end of our input is ours. We say our `build`
first, then `done` with the seeds of each file that is whole and in its place, and `broken` with the
reason if we cannot go on.

A task simulates the environments of one file in a folder of its own, by the same code as
`remuda train antelope --collect` here, and hands over the file's bytes, which are the same. A
worker that dies costs the file it was at. Workers need the package of the same build, with its
extra `ray`; not what training itself needs.
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
"""So many files are given out for each processor: one to simulate, and one that is next."""
BYTES_MAX = 64 << 20
"""A file of 25 environments has some 2 MB."""


@dataclass(frozen=True)
class Task:
    """What is to be collected."""

    folder: Path
    plans: int
    about: dict[str, str]
    """What the files say of themselves."""
    seeds: list[tuple[int, int]]
    """Of each file: the first, and the one after the last."""

    @staticmethod
    def read(line: str) -> Task:
        """As the command says it."""
        said = json.loads(line)
        seeds = [(first, end) for first, end in said["seeds"]]
        return Task(Path(said["folder"]), said["plans"], said["about"], seeds)


def simulated(
    build: str, seeds: tuple[int, int], plans: int, about: dict[str, str]
) -> tuple[str, bytes]:
    """What a worker does: its build, and the bytes of a file; none if it is of another build."""
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
    """Has all files made, `at_once` at a time, until it is stopped.

    Raises:
        BrokenError: nothing more can be made, and why.
        OSError: a file cannot be written.
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
    parser.add_argument("--address", help="the cluster; without, one of our own")
    parser.add_argument("--jobs", type=int, help="how many files at a time")
    arguments = parser.parse_args()
    # Whatever else prints, also below us, prints to standard error.
    output = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    stopped, ready = threading.Event(), threading.Event()

    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=output, flush=True)

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stopped.set()
        if not ready.is_set():
            # Ray may look for a cluster for minutes; what it has started ends with us.
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
