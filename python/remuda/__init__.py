"""Congestion control: scenarios, results and training environments.

Run a scenario in the simulator, and read the results without a copy::

    result = remuda.run("two-cubics.toml", seed=7)
    print(result, result.summary()["goodput_mbit_per_sec"])
    t_s, cwnd_pkts = result.flow_samples["t_s"], result.flow_samples["cwnd_pkts"]
    table = pyarrow.table(result.flows)  # or polars.DataFrame(result.flows)

Drive a flow yourself, one step at a time::

    env = gymnasium.make("remuda/Congestion-v0")
    envs = remuda.CongestionVecEnv(64, threads=2)
    arm = remuda.PolicyArm(env.unwrapped.settings, policy)  # deploys what was trained

Write an algorithm, and run it beside the others: see `Controller`; `Embedded` is a built-in one
inside yours.

Set what a socket prefers, at a running agent: see `prefer`.

Names end in their unit, as in scenario files. The seed decides every result: the same seed gives
the same result on any machine.
"""

from gymnasium.envs.registration import register as _register

from remuda._native import (
    Result,
    Scenario,
    Table,
    __version__,
    read,
    run,
    run_many,
)
from remuda.author import Controller, Decision, Measurement, PathState, RttSamples
from remuda.deploy import PolicyArm
from remuda.embedded import Embedded
from remuda.env import Baseline, CongestionEnv
from remuda.preference import prefer
from remuda.settings import (
    FAMILIES,
    FEATURES,
    METRICS,
    SIZE_FEATURES,
    CongestionSettings,
    Feature,
)
from remuda.vector import CongestionVecEnv

__all__ = [
    "ENV_ID",
    "FAMILIES",
    "FEATURES",
    "METRICS",
    "SIZE_FEATURES",
    "Baseline",
    "CongestionEnv",
    "CongestionSettings",
    "CongestionVecEnv",
    "Controller",
    "Decision",
    "Embedded",
    "Feature",
    "Measurement",
    "PathState",
    "PolicyArm",
    "Result",
    "RttSamples",
    "Scenario",
    "Table",
    "__version__",
    "prefer",
    "read",
    "run",
    "run_many",
]

ENV_ID = "remuda/Congestion-v0"
"""The name of the environment for `gymnasium.make` and `gymnasium.make_vec`."""

_register(
    id=ENV_ID,
    entry_point="remuda.env:CongestionEnv",
    vector_entry_point="remuda.vector:CongestionVecEnv",
)
