"""One environment."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from conftest import external
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

import remuda
from remuda.settings import CongestionSettings

MAKERS: dict[str, Callable[[], gymnasium.Env[Any, Any]]] = {
    "drawn": lambda: gymnasium.make("remuda/Congestion-v0", episode_steps=50),
    "window": lambda: gymnasium.make("remuda/Congestion-v0", control="window", history=3),
    "scenario": lambda: gymnasium.make(
        "remuda/Congestion-v0", scenario=external(bytes=10**6), episode_steps=None
    ),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_gymnasium_finds_nothing_wrong(make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make()
        check_env(env.unwrapped)
        env.close()


def action(value: float) -> NDArray[np.float32]:
    return np.array([value], np.float32)


def play(env: remuda.CongestionEnv, seed: int | None, value: float = 0.1) -> list[Any]:
    seen: list[Any] = [env.reset(seed=seed)]
    while len(seen) == 1 or not (seen[-1][2] or seen[-1][3]):
        seen.append(env.step(action(value)))
    return seen


def same(one: list[Any], two: list[Any]) -> bool:
    return len(one) == len(two) and all(
        np.array_equal(a[0], b[0]) and a[1:] == b[1:] for a, b in zip(one, two, strict=True)
    )


def test_the_same_seed_gives_the_same_episodes() -> None:
    one, two = (remuda.CongestionEnv(episode_steps=30) for _ in range(2))
    first, second = play(one, 5), play(one, None)
    assert not same(first, second)
    assert same(first, play(two, 5)) and same(second, play(two, None))
    assert not same(first, play(two, 6))
    unseeded = [remuda.CongestionEnv().reset()[1]["bandwidth_mbit_per_sec"] for _ in range(2)]
    assert unseeded[0] != unseeded[1]


def test_each_episode_is_drawn_from_the_ranges() -> None:
    env = remuda.CongestionEnv(
        bandwidth_mbit_per_sec=(4, 8), rtt_ms=20, queue_bdp=(0.5, 1), loss_percent=0
    )
    infos = [env.reset(seed=seed)[1] for seed in range(40)]
    bandwidths = [info["bandwidth_mbit_per_sec"] for info in infos]
    assert 4 <= min(bandwidths) < 4.5 and 7.5 < max(bandwidths) <= 8
    assert {info["base_rtt_ms"] for info in infos} == {20}
    assert {info["loss_percent"] for info in infos} == {0}
    assert all(0.5 <= info["queue_bdp"] <= 1 for info in infos)


def plain(**changes: Any) -> remuda.CongestionEnv:  # noqa: ANN401
    return remuda.CongestionEnv(
        bandwidth_mbit_per_sec=12,
        rtt_ms=40,
        queue_bdp=1,
        loss_percent=0,
        **{"start_ratio": 0.9, **changes},
    )


def test_an_action_multiplies_the_rate() -> None:
    env = plain()
    rates = [env.reset(seed=1)[1]["rate_mbit_per_sec"]]
    for value in (1, -1, 0.5, -0.5, 0, 7, -7):
        rates.append(env.step(action(value))[4]["rate_mbit_per_sec"])
    assert rates[0] == pytest.approx(12 * 0.9 * 1448 / 1500, rel=1e-3)
    factors = np.array(rates[1:]) / np.array(rates[:-1])
    assert factors == pytest.approx([1.25, 0.8, 1.125, 1 / 1.125, 1, 1.25, 0.8], rel=1e-3)


def test_a_reward_weighs_throughput_delay_and_loss() -> None:
    reward = {}
    for name in ("throughput", "delay", "loss"):
        weights = {f"{key}_weight": float(key == name) for key in ("throughput", "delay", "loss")}
        env = plain(start_ratio=1.5, **weights)
        _, reward[name], _, _, info = run(env, 30)
    # A rate of 1.5 links: a full link, a full queue of one BDP, and a third of the packets lost.
    assert reward["throughput"] == pytest.approx(1, abs=0.05)
    assert reward["delay"] == pytest.approx(-1, abs=0.15)
    assert reward["loss"] == pytest.approx(-1 / 3, abs=0.08)
    assert info["rtt_ms"] == pytest.approx(80, abs=6)
    assert info["loss_rate"] == -reward["loss"]


def run(env: remuda.CongestionEnv, steps: int) -> tuple[Any, ...]:
    env.reset(seed=1)
    for _ in range(steps - 1):
        env.step(action(0))
    return env.step(action(0))


def test_observations_are_the_named_features() -> None:
    env = plain(history=2)
    observation, *_ = run(env, 20)
    assert observation.shape == (16,) and observation.dtype == np.float32
    space = env.observation_space
    assert isinstance(space, gymnasium.spaces.Box)
    names = [feature.name for feature in remuda.FEATURES]
    assert len(names) == 8 and env.observation_space.contains(observation)
    last = dict(zip(names, observation[8:], strict=True))
    assert last["send_ratio"] == pytest.approx(1, abs=0.05)
    assert last["latency_ratio"] == pytest.approx(1, abs=0.05)
    assert last["delivery_ratio"] == pytest.approx(1, abs=0.1)
    assert last["rate_ratio"] == pytest.approx(1, abs=0.05)
    assert last["in_flight_bdp"] == pytest.approx(1, abs=0.15)
    assert last["loss_rate"] == last["ecn_rate"] == 0
    doc = remuda.CongestionEnv.__doc__ or ""
    for feature in remuda.FEATURES:
        low, high = int(feature.low), int(feature.high)
        row = next(line for line in doc.splitlines() if f"`{feature.name}`" in line)
        assert f"{low}..{high}" in row and f"| {feature.unit} " in row
    assert [low for low, _ in zip(space.low, names, strict=False)] == [
        feature.low for feature in remuda.FEATURES
    ]
    assert all(f"`{name}`" in doc for name in remuda.METRICS)


def test_an_observation_is_never_written_again() -> None:
    env = plain()
    first, _ = env.reset(seed=1)
    kept = first.copy()
    second = env.step(action(1))[0]
    assert np.array_equal(first, kept) and not np.shares_memory(first, second)


def test_a_scenario_ends_as_it_says() -> None:
    env = remuda.CongestionEnv(scenario=external(bytes=200_000), episode_steps=None)
    seen = play(env, 1, 0.0)
    assert seen[-1][2:4] == (True, False)
    env = remuda.CongestionEnv(scenario=external(), episode_steps=None)
    seen = play(env, 1, 0.0)
    assert seen[-1][2:4] == (False, True)
    assert seen[-1][4]["time_s"] == pytest.approx(5, abs=0.05)
    env = remuda.CongestionEnv(scenario=external(), episode_steps=7)
    assert len(play(env, 1, 0.0)) == 8
    assert env.packets_sent > 50


def test_traffic_beside_it_costs_throughput() -> None:
    alone = remuda.CongestionEnv(scenario=external(init_cwnd_pkts=40))
    table = external(init_cwnd_pkts=40)
    crowd = {"driver": "unresponsive", "app_rate_mbit_per_sec": 6, "poisson": True}
    table["flows"].append(crowd)
    crowded = remuda.CongestionEnv(scenario=remuda.Scenario.from_dict(table))
    throughputs = []
    for env in (alone, crowded):
        steps = play(env, 1, 0.0)[40:]
        throughputs.append(np.mean([info["throughput_mbit_per_sec"] for *_, info in steps]))
    assert throughputs[0] == pytest.approx(11.4, abs=0.3)
    assert 5 < throughputs[1] < 10.5


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rtt_ms": (40, 20)}, "`rtt_ms` is (40, 20): must be (low, high)"),
        ({"rtt_ms": "fast"}, "`rtt_ms` is 'fast': must be a number or (low, high)"),
        ({"bandwidth_mbit_per_sec": 0}, "`bandwidth_mbit_per_sec` is (0, 0): must be"),
        ({"history": 1001}, "`history` is 1001: must be from 1 to 1000"),
        ({"history": 2.5}, "`history` is 2.5: must be a whole number"),
        ({"history": 0}, "`history` is 0: must be at least 1"),
        ({"episode_steps": None}, "`episode_steps` is not set: must be set"),
        ({"episode_steps": -3}, "`episode_steps` is -3: must be"),
        ({"control": "brake"}, '`control` is "brake": must be "rate", "window" or "arm"'),
        ({"loss_weight": float("nan")}, "`loss_weight` is NaN: must be"),
        ({"colour": 1}, "`colour` is not a setting; the settings are: bandwidth_mbit_per_sec"),
        ({"scenario": {"duration_s": 1}}, "links"),
        ({"scenario": external(count=2)}, "scenario two windows: must have exactly one flow"),
        ({"render_mode": "human"}, "`render_mode` is 'human': must be None"),
    ],
)
def test_a_bad_setting_names_key_and_rule(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        remuda.CongestionEnv(**changes)
    assert expected in str(caught.value)


def test_misuse_is_refused() -> None:
    env = plain(episode_steps=2)
    with pytest.raises(RuntimeError, match="no episode runs: call reset"):
        env.step(action(0))
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"the action is .*nan.*: must be one finite number"):
        env.step(action(float("nan")))
    env.step(action(0))
    assert env.step(action(0))[3]
    with pytest.raises(RuntimeError, match="no episode runs"):
        env.step(action(0))
    with pytest.raises(FileNotFoundError):
        remuda.CongestionEnv(scenario="no-such-scenario.toml")


def test_settings_can_be_kept_and_changed() -> None:
    settings = CongestionSettings(rtt_ms=20, history=4)
    env = remuda.CongestionEnv(settings, history=5)
    assert (env.settings.rtt_ms, env.settings.history) == (20, 5)
    assert env.observation_space.shape == (40,)
    assert copy.deepcopy(settings) == settings


@pytest.mark.parametrize("bad", [0.2, [], [0.1, 0.2], np.array(0.2), ["fast"], [float("nan")]])
def test_an_action_is_one_number(bad: Any) -> None:  # noqa: ANN401
    env = remuda.CongestionEnv(rtt_ms=10)
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"the action is .*: must be one finite number"):
        env.step(bad)


PICKLED = {**MAKERS, "plain": lambda: remuda.CongestionEnv(episode_steps=30)}


@pytest.mark.parametrize("make", PICKLED.values(), ids=PICKLED.keys())
@pytest.mark.parametrize("steps", [None, 0, 1, 17])
def test_a_pickled_environment_goes_on_as_the_original(
    make: Callable[[], gymnasium.Env[Any, Any]], steps: int | None
) -> None:
    env = make()
    if steps is not None:
        env.reset(seed=3)
        for step in range(steps):
            env.step(action(0.1 * (step % 5)))
    copies = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    if steps is None:
        for one in [env, *copies]:
            one.reset(seed=5)
    seen = [[one.step(action(0.3)) for _ in range(10)] for one in [env, *copies]]
    # The rest of the episode, and the next one, drawn from the same random state.
    for one, of in zip([env, *copies], seen, strict=True):
        of += [one.reset(), *(one.step(action(-0.2)) for _ in range(10))]
    assert same(seen[0], seen[1]) and same(seen[0], seen[2])
    sent = [one.unwrapped.packets_sent for one in [env, *copies]]
    assert sent[0] == sent[1] == sent[2] > 0


def test_an_environment_is_pickled_where_its_episode_has_ended() -> None:
    env = remuda.CongestionEnv(episode_steps=3)
    play(env, 1)
    other = pickle.loads(pickle.dumps(env))
    with pytest.raises(RuntimeError, match="no episode runs"):
        other.step(action(0))
    assert same(play(env, None), play(other, None))


def test_seeds_may_be_numbers_of_numpy() -> None:
    env = remuda.CongestionEnv(episode_steps=3)
    assert same(play(env, np.int64(5)), play(env, 5))  # type: ignore[arg-type]


def test_sizes_follow_the_ratios() -> None:
    ratios = remuda.CongestionEnv(history=2)
    sizes = remuda.CongestionEnv(history=2, features="sizes")
    few, more = ratios.reset(seed=3)[0], sizes.reset(seed=3)[0]
    names = [feature.name for feature in remuda.FEATURES + remuda.SIZE_FEATURES]
    assert sizes.observation_space.contains(more) and more.shape == (2 * len(names),)
    assert np.array_equal(more.reshape(2, -1)[:, : len(remuda.FEATURES)], few.reshape(2, -1))
    newest = dict(zip(names, more.reshape(2, -1)[-1].tolist(), strict=True))
    assert newest["in_flight_log2"] >= newest["queued_log2"] >= 0
    with pytest.raises(ValueError, match=r'`features` is "all": must be "ratios" or "sizes"'):
        remuda.CongestionEnv(features="all")
