"""Scenarios and their results."""

import _thread
import copy
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import two_flows

import remuda


def test_a_result_holds_what_the_physics_say(scenario: dict[str, Any]) -> None:
    result = remuda.run(scenario)
    # 30 segments of 1448 bytes in flight over 40 ms are 8.7 Mbit/s, minus the delay of ACKs.
    goodput = result.flows["goodput_mbit_per_sec"]
    assert goodput.shape == (2,)
    assert goodput.sum() == pytest.approx(8.2, abs=0.5)
    assert result.flows["rtt_min_ms"] == pytest.approx(41, abs=1.5)
    assert list(result.flows["name"]) == ["window:15-1", "window:15-2"]
    assert list(result.links["name"]) == ["down", "up"]
    assert result.links["dropped_pkts"].sum() == 0
    assert result.flow_samples["t_s"].max() == pytest.approx(5, abs=0.11)
    assert len(result.switches) == 0


def test_a_summary_adds_up(scenario: dict[str, Any]) -> None:
    result = remuda.run(scenario)
    summary = result.summary()
    assert summary["scenario"] == "two windows" == result.scenario
    assert (summary["engine"], summary["seed"], summary["flows"]) == ("sim", 3, 2)
    goodput = result.flows["goodput_mbit_per_sec"].sum()
    assert summary["goodput_mbit_per_sec"] == pytest.approx(goodput)
    assert summary["delivered_bytes"] == result.flows["delivered_bytes"].sum()
    assert summary["packets"] == summary["sent_pkts"] == result.flows["sent_pkts"].sum()
    assert 0.99 < summary["jain"] <= 1
    text = repr(result)
    assert text.startswith('<remuda.Result "two windows": sim, 5 s, seed 3; 2 flows, ')
    assert "Mbit/s" in text and "ms>" in text and "% retransmitted" in text


def test_dict_file_text_and_scenario_say_the_same(tmp_path: Path) -> None:
    table = two_flows()
    of_dict = remuda.Scenario.from_dict(table)
    file = tmp_path / "two.toml"
    file.write_text(of_dict.to_toml())
    assert remuda.Scenario.load(file) == remuda.Scenario.load(str(file)) == of_dict
    assert remuda.Scenario.parse(of_dict.to_toml()) == of_dict
    assert copy.deepcopy(of_dict) == pickle.loads(pickle.dumps(of_dict)) == of_dict
    assert of_dict.flow_names == ["window:15-1", "window:15-2"]
    assert (of_dict.link_names, of_dict.seed, of_dict.duration_s) == (["down", "up"], 3, 5.0)
    results = [remuda.run(each) for each in (table, of_dict, file, str(file))]
    assert all(result == results[0] for result in results)


def test_numpy_numbers_are_numbers() -> None:
    plain = remuda.Scenario.from_dict(two_flows())
    table = two_flows(duration_s=np.float64(5), seed=np.int64(3), sample_ms=np.float32(100))
    assert remuda.Scenario.from_dict(table) == plain


def lossy() -> dict[str, Any]:
    table = two_flows(duration_s=3)
    table["links"]["down"]["loss_percent"] = 2
    return table


def test_a_seed_decides_everything() -> None:
    assert remuda.run(lossy(), seed=1) == remuda.run(lossy(), seed=1)
    assert remuda.run(lossy(), seed=1) != remuda.run(lossy(), seed=2)
    assert remuda.run(lossy(), seed=9).seed == 9
    assert remuda.Scenario.from_dict(lossy()).with_seed(9).seed == 9


@pytest.mark.parametrize("jobs", [1, 3, None])
def test_many_come_in_order_whatever_the_jobs(jobs: int | None) -> None:
    seeds = list(range(7))
    results = remuda.run_many([lossy()] * 7, seeds=seeds, jobs=jobs)
    assert [result.seed for result in results] == seeds
    assert all(result == remuda.run(lossy(), seed) for seed, result in enumerate(results))
    assert remuda.run_many([]) == []


def test_written_results_are_read_back(tmp_path: Path, scenario: dict[str, Any]) -> None:
    result = remuda.run(scenario)
    result.write(tmp_path / "out")
    assert remuda.read(tmp_path / "out") == result
    with pytest.raises(FileNotFoundError):
        remuda.read(tmp_path / "nothing")


def bad(key: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
    return two_flows(**{key: value})


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (bad("duration_s", -1), "`duration_s` is -1: must be above 0"),
        (bad("duration_s", None), "`scenario.duration_s`: is None: leave the key out"),
        (bad("flows", [{"driver": "window:0"}]), "a fixed window is 1 to 1000000 segments"),
        (bad("flows", [{"driver": "cubic", "start_s": object()}]), "`scenario.flows.0.start_s`"),
        (bad("colour", 1), "unknown field `colour`"),
        (bad("links", {1: {}}), "the key 1 must be a string"),
        (bad("links", {"down": {"delay": 3}}), "delay_ms"),
        (bad("flows", [{"driver": "nobody"}]), "nobody"),
        (bad("flows", [{"driver": "native:cubic"}]), "native"),
    ],
)
def test_a_bad_scenario_names_key_and_rule(scenario: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        remuda.run(scenario)
    assert expected in str(caught.value)
    with pytest.raises(ValueError) as caught:
        remuda.run_many([two_flows(), scenario])
    assert expected in str(caught.value)


def test_what_is_no_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        remuda.run(tmp_path / "none.toml")
    with pytest.raises(TypeError, match="scenario is of type int: must be a path, a dict"):
        remuda.run(7)  # type: ignore[arg-type]
    endless: dict[str, Any] = {}
    endless["links"] = endless
    with pytest.raises(ValueError, match="nested too deep"):
        remuda.run(endless)
    with pytest.raises(ValueError, match="`jobs` is 0: must be from 1 to 1024"):
        remuda.run_many([two_flows()], jobs=0)
    with pytest.raises(ValueError, match="`seeds` has 2 values: must have 1"):
        remuda.run_many([two_flows()], seeds=[1, 2])


def endless() -> dict[str, Any]:
    """A scenario that takes minutes or hours."""
    table = two_flows(duration_s=1e6, sample_ms=0)
    table["links"]["down"]["rate_mbit_per_sec"] = 1_000
    table["flows"] = [{"driver": "window:3000"}]
    return table


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handles SIGINT as in a terminal: background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("many", [False, True])
def test_an_interrupt_ends_a_run(many: bool) -> None:
    counted = 0
    over = threading.Event()

    def interrupt() -> None:
        nonlocal counted
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            counted += 1
        _thread.interrupt_main()
        over.set()

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        if many:
            remuda.run_many([endless()] * 3, jobs=2)
        else:
            remuda.run(endless())
        over.wait()
    assert time.monotonic() - started < 10
    assert counted > 1_000, "other threads go on meanwhile"


def test_a_folder_of_several_runs_is_none_to_read(tmp_path: Path, scenario: dict[str, Any]) -> None:
    remuda.run(scenario).write(tmp_path / "one")
    table = pq.read_table(tmp_path / "one" / "flows.parquet")
    several = table.replace_schema_metadata({"program": "remuda"})
    pq.write_table(several, tmp_path / "flows.parquet")
    with pytest.raises(ValueError, match=r"`flows`: is of several runs; read one of the folders"):
        remuda.read(tmp_path)


def test_a_dict_may_have_numbers_and_arrays_of_numpy() -> None:
    plain = {
        "duration_s": 2.0,
        "seed": 3,
        "links": {
            "down": {
                "rate_mbit_per_sec": 12.0,
                "delay_ms": 20.5,
                "queue": {"kind": "droptail", "limit_bdp": 1.0},
                "rate_steps": [{"at_s": 1, "rate_mbit_per_sec": 6.0}],
            },
            "up": {"delay_ms": 20.0},
        },
        "flows": [{"driver": "cubic", "count": 2, "ecn": True, "route": ["down"], "back": ["up"]}],
    }
    table = copy.deepcopy(plain)
    table["seed"] = np.uint32(3)
    table["duration_s"] = np.float32(2.0)
    down = table["links"]["down"]
    down["rate_mbit_per_sec"] = np.int64(12)
    down["delay_ms"] = np.float16(20.5)
    down["rate_steps"][0].update(at_s=np.int32(1), rate_mbit_per_sec=np.float64(6))
    table["flows"][0].update(driver=np.str_("cubic"), count=np.int8(2), ecn=np.bool_(True))
    table["flows"][0]["route"] = np.array(["down"])
    assert remuda.Scenario.from_dict(table) == remuda.Scenario.from_dict(plain)
    assert remuda.run(table, seed=np.int64(5)) == remuda.run(plain, seed=5)
    for bad in (np.datetime64("2020-01-01"), np.complex64(1j), np.array([[1, 2]])):
        table["duration_s"] = bad
        with pytest.raises(ValueError, match="duration_s"):
            remuda.run(table)
