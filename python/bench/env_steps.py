"""Environment steps per CPU-second from Python: single, and vectorised on one thread.

The CPU time is that of this process, over all its threads: other work on the machine affects it
only through the caches. Actions are drawn before the clock starts. Each case is measured several
times, and the best result counts.
"""

import argparse
import dataclasses
import functools
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import remuda

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GOAL_SINGLE = 40_000
GOAL_VECTOR = 200_000
GOAL_ROWS = 150_000
"""Steps of single flows, where several share a simulation."""


def commit() -> str:
    """The commit of these sources, with a `+` if files have changed since."""
    here = Path(__file__).parent
    try:
        run = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
        head = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
        changed = subprocess.run(["git", "-C", str(here), "diff", "--quiet", "HEAD"], check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed.returncode else "")


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def best(repeats: int, measure: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """Steps per CPU-second, packets per CPU-second and packets per step of the best repeat."""
    runs = []
    for _ in range(repeats):
        steps, packets, cpu_s = measure()
        runs.append((steps / cpu_s, packets / cpu_s, packets / steps))
    return max(runs)


def single(steps: int, seed: int, settings: remuda.CongestionSettings) -> tuple[float, ...]:
    """Steps one environment, and resets it at the end of each episode."""
    env = remuda.CongestionEnv(settings)
    env.reset(seed=seed)
    actions = np.random.default_rng(seed).uniform(-1, 1, (steps, 1)).astype(np.float32)
    before = env.packets_sent
    started = time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    cpu_s = time.process_time() - started
    return steps, env.packets_sent - before, cpu_s


def vector(
    steps: int, seed: int, settings: remuda.CongestionSettings, count: int, threads: int
) -> tuple[float, ...]:
    """Steps many environments, which reset themselves."""
    envs = remuda.CongestionVecEnv(count, settings, threads=threads)
    envs.reset(seed=seed)
    rounds = max(1, steps // count)
    draw = np.random.default_rng(seed)
    actions = draw.uniform(-1, 1, (rounds, count, 1)).astype(np.float32)
    before = envs.packets_sent
    started = time.process_time()
    for action in actions:
        envs.step(action)
    cpu_s = time.process_time() - started
    return rounds * count, envs.packets_sent - before, cpu_s


def memory_per_env(count: int, seed: int, settings: remuda.CongestionSettings) -> float:
    """Bytes for each environment, in the middle of episodes."""
    remuda.CongestionVecEnv(1, settings).reset(seed=seed)
    before = resident_bytes()
    envs = remuda.CongestionVecEnv(count, settings)
    envs.reset(seed=seed)
    for _ in range(20):
        envs.step(np.zeros((count, 1), np.float32))
    return (resident_bytes() - before) / count


def python_only_us(calls: int) -> float:
    """The time of a step without the simulation: on a link that carries almost nothing."""
    settings = remuda.CongestionSettings(
        bandwidth_mbit_per_sec=0.05,
        rtt_ms=1,
        loss_percent=0,
        start_ratio=0.001,
        episode_steps=10_000_000,
    )
    env = remuda.CongestionEnv(settings, action_scale=1e-6)
    env.reset(seed=1)
    action = np.zeros(1, np.float32)
    started = time.process_time()
    for _ in range(calls):
        env.step(action)
    return (time.process_time() - started) / calls * 1e6


def show_links(settings: remuda.CongestionSettings) -> None:
    """Prints the settings of the links of the following lines."""
    print(
        f"# {settings.bandwidth_mbit_per_sec} Mbit/s, {settings.rtt_ms} ms, "
        f"{settings.queue_bdp} BDP of queue, {settings.loss_percent} % loss"
    )


def show(name: str, figures: tuple[float, ...], goal: float | None = None) -> None:
    """Prints one line of the table."""
    rate, packet_rate, per_step = figures
    verdict = ""
    if goal is not None:
        verdict = "ok" if rate >= goal else f"below {goal:,.0f}"
    print(
        f"{name:34} {rate:>11,.0f} steps/CPU-s {packet_rate / 1e6:>6.2f} M packets/CPU-s "
        f"{per_step:>6.1f} packets/step  {verdict}"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200_000, help="steps of each repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--envs", type=int, default=64)
    arguments = parser.parse_args()
    seed, steps, repeats, count = (
        arguments.seed,
        arguments.steps,
        arguments.repeats,
        arguments.envs,
    )
    load = os.getloadavg()[0]
    print(f"# commit {commit()}, seed {seed}, best of {repeats}, load {load:.1f}, random actions")
    settings = remuda.CongestionSettings()
    show_links(settings)
    show("single", best(repeats, lambda: single(steps // 4, seed, settings)), GOAL_SINGLE)
    for threads in (1, 2):
        run = functools.partial(vector, steps, seed, settings, count, threads)
        # How much two threads slow each other down depends on the machine, so the goal is for one
        # core.
        goal = GOAL_VECTOR if threads == 1 else None
        show(f"{count} vectorised, {threads} thread(s)", best(repeats, run), goal)
    for flows in (2, 4):
        shared = dataclasses.replace(settings, flows=flows, reward="merit")
        # A step of a row is that of one flow; a simulation needs that of all its flows.
        show(
            f"{count} rows, {flows} flows a simulation",
            best(repeats, lambda shared=shared: vector(steps, seed, shared, count, 1)),
            GOAL_ROWS,
        )
    wide = dataclasses.replace(settings, bandwidth_mbit_per_sec=(1.0, 48.0), rtt_ms=(10.0, 200.0))
    show_links(wide)
    show(
        f"{count} vectorised, 1 thread(s)",
        best(repeats, lambda: vector(steps, seed, wide, count, 1)),
    )
    print(f"{'a step without the simulation':34} {python_only_us(200_000):>11.2f} us")
    print(f"{'memory per environment':34} {memory_per_env(1_000, seed, settings) / 1e3:>11.1f} kB")


if __name__ == "__main__":
    main()
