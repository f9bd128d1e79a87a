"""Many environments at once."""

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from conftest import external
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import remuda

COUNT = 4
STEPS = 6
SETTINGS = {"rtt_ms": (10, 30), "episode_steps": STEPS, "history": 2}


def make(**changes: Any) -> remuda.CongestionVecEnv:  # noqa: ANN401
    return remuda.CongestionVecEnv(COUNT, **{**SETTINGS, **changes})


def actions(value: float = 0.1) -> np.ndarray[Any, Any]:
    return np.linspace(-value, value, COUNT, dtype=np.float32).reshape(COUNT, 1)


def assert_same(one: Any, two: Any) -> None:  # noqa: ANN401
    """Asserts that two results of gymnasium environments are equal."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == two.dtype and np.array_equal(one, two)
    else:
        assert one == two


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_does_what_gymnasiums_own_does(mode: AutoresetMode, threads: int) -> None:
    ours = make(threads=threads, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: remuda.CongestionEnv(**SETTINGS)] * COUNT, autoreset_mode=mode)
    mine, other = ours.reset(seed=11), theirs.reset(seed=11)
    drawn = {key: other[1].pop(key) for key in list(other[1]) if key.strip("_") in DRAWN}
    assert len(drawn) == 4
    assert_same(mine, other)
    for step in range(3 * STEPS):
        mine, other = ours.step(actions(0.05 * step)), theirs.step(actions(0.05 * step))
        for key in [key for key in other[4] if key.strip("_") in DRAWN]:
            del other[4][key]
        for infos in (mine[4], other[4]):
            for key in [key for key in infos if key.startswith("final") and step % STEPS != 5]:
                raise AssertionError(f"{key} without an end")
        assert_same(mine[:4], other[:4])
        assert_same(mine[4], other[4])


DRAWN = {"queue_bdp", "loss_percent"}


def test_without_autoreset_a_mask_says_who_starts_anew() -> None:
    envs = make(autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=1)
    for _ in range(STEPS):
        before, _, _, truncated, _ = envs.step(actions())
    assert truncated.all()
    with pytest.raises(RuntimeError, match="environment 0: no episode runs"):
        envs.step(actions())
    mask = np.array([False, True, False, True])
    after, _ = envs.reset(options={"reset_mask": mask})
    assert [np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == list(~mask)
    for bad in (np.ones(3, np.bool_), np.ones(COUNT), np.zeros(COUNT, np.bool_)):
        with pytest.raises(ValueError, match=r"`reset_mask` is .* must be a bool array of shape"):
            envs.reset(options={"reset_mask": bad})


def test_seeds_are_each_environments_own() -> None:
    envs = make()
    one, _ = envs.reset(seed=5)
    two, _ = envs.reset(seed=[5, 6, 7, 8])
    assert np.array_equal(one, two)
    unlike, _ = envs.reset(seed=[5, None, 5, 8])
    assert np.array_equal(unlike[0], unlike[2]) and not np.array_equal(unlike[1], one[1])
    with pytest.raises(ValueError, match="`seed` has 3 values: must have 4"):
        envs.reset(seed=[1, 2, 3])
    fresh = [make().reset()[0] for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_arrays_are_written_in_place_and_never_again() -> None:
    envs = make()
    first, _ = envs.reset(seed=1)
    kept = first.copy()
    stepped = envs.step(actions())
    assert np.array_equal(first, kept) and not np.shares_memory(first, stepped[0])
    assert all(array.base is None for array in stepped[:4]), "nothing is a view of a copy"
    assert stepped[0].dtype == np.float32 and stepped[1].dtype == np.float64
    assert stepped[2].dtype == stepped[3].dtype == np.bool_
    assert envs.observation_space.contains(stepped[0])


def test_observations_can_be_written_to_an_array_of_yours() -> None:
    shape = (COUNT, 16)
    out = np.zeros(shape, np.float32)
    envs, plain = make(out=out), make()
    first, _ = envs.reset(seed=1)
    assert first is out and np.array_equal(out, plain.reset(seed=1)[0])
    address = out.__array_interface__["data"][0]
    for _ in range(STEPS + 1):
        observations = envs.step(actions())[0]
        assert observations is out and np.array_equal(out, plain.step(actions())[0])
    assert out.__array_interface__["data"][0] == address
    wrong = [np.zeros(shape), np.zeros((COUNT, 8), np.float32), np.zeros((16, COUNT), "f4").T]
    for bad in wrong:
        with pytest.raises(ValueError, match=r"`out` is .*must be a writable float32 array"):
            make(out=bad)


def test_gymnasium_makes_it() -> None:
    envs = gymnasium.make_vec("remuda/Congestion-v0", num_envs=3, history=4, threads=2)
    assert isinstance(envs.unwrapped, remuda.CongestionVecEnv)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert envs.observation_space.shape == (3, 32) and envs.action_space.shape == (3, 1)
    observations, _ = envs.reset(seed=1)
    assert envs.observation_space.contains(observations)
    envs.step(envs.action_space.sample())
    envs.close()


def test_infos_have_every_figure_and_a_mask() -> None:
    envs = make(scenario=external(), episode_steps=None)
    _, infos = envs.reset(seed=1)
    for name in remuda.METRICS:
        assert infos[name].shape == (COUNT,) and infos[f"_{name}"].all()
    assert set(infos["bandwidth_mbit_per_sec"]) == {12} and set(infos["base_rtt_ms"]) == {40}
    assert envs.packets_sent > 0


def test_misuse_is_refused() -> None:
    for changes, expected in (
        ({"threads": 0}, "`threads` is 0: must be a whole number above 0"),
        ({"threads": 5000}, "`threads` is 5000: must be from 1 to 1024"),
        ({"autoreset_mode": "never"}, "'never' is not a valid AutoresetMode"),
        ({"history": 0}, "`history` is 0"),
    ):
        with pytest.raises(ValueError) as caught:
            make(**changes)
        assert expected in str(caught.value)
    with pytest.raises(ValueError, match="`num_envs` is 0: must be"):
        remuda.CongestionVecEnv(0)
    envs = make()
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=r"`actions` have shape \(3, 1\): must have"):
        envs.step(np.zeros((3, 1), np.float32))
    bad = actions()
    bad[2] = np.inf
    with pytest.raises(ValueError, match="environment 2: the action is inf"):
        envs.step(bad)


def test_who_minds_the_delay_earns_more() -> None:
    """A simple rule beats chance and a constant rate, so learning is possible."""
    count, latency = 64, [feature.name for feature in remuda.FEATURES].index("latency_ratio") - 8
    draw = np.random.default_rng(1)
    earned = []
    for policy in ("hold", "chance", "delay"):
        envs = remuda.CongestionVecEnv(count, episode_steps=150)
        observations, _ = envs.reset(seed=1)
        rewards = []
        for _ in range(150):
            decided = np.zeros((count, 1), np.float32)
            if policy == "chance":
                decided = draw.uniform(-1, 1, (count, 1)).astype(np.float32)
            if policy == "delay":
                decided = np.clip(2.2 - 2 * observations[:, latency], -1, 0.3).reshape(count, 1)
            observations, reward, *_ = envs.step(decided)
            rewards.append(reward.mean())
        earned.append(np.mean(rewards))
    hold, chance, delay = earned
    assert delay > hold + 0.05 and delay > chance + 0.2


@pytest.mark.parametrize("bad", [-1, [-1, 2, 3, 4], 2**64 - 1, [1.5, 2, 3, 4], [True] * 4, [1, 2]])
def test_a_seed_that_is_none_is_refused_and_says_the_rule(bad: Any) -> None:  # noqa: ANN401
    envs = make()
    with pytest.raises(ValueError, match=r"`seed` (of environment|has 2 values).*must"):
        envs.reset(seed=bad)
    envs.reset(seed=[1, None, 3, 2**64 - 1])


def test_what_is_no_array_of_the_right_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`out` is list: must be a writable float32 array"):
        make(out=[1])
    envs = make()
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=r"`actions` have shape \(1, 4\): must have"):
        envs.step(np.zeros((1, COUNT), np.float32))


@pytest.mark.parametrize(
    "mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
)
@pytest.mark.parametrize("steps", [0, 4, STEPS, STEPS + 1, 2 * STEPS + 3])
def test_pickled_environments_go_on_as_the_originals(mode: AutoresetMode, steps: int) -> None:
    if mode == AutoresetMode.DISABLED:
        steps = min(steps, STEPS - 2)
    envs = make(threads=2, autoreset_mode=mode)
    envs.reset(seed=4)
    for step in range(steps):
        envs.step(actions(0.1 * step))
    other = pickle.loads(pickle.dumps(envs))
    more = 2 if mode == AutoresetMode.DISABLED else 2 * STEPS
    for step in range(more):
        assert_same(envs.step(actions(0.07 * step)), other.step(actions(0.07 * step)))
    assert_same(envs.reset(), other.reset())
    assert envs.packets_sent == other.packets_sent


def test_a_copy_has_an_array_of_its_own_for_observations() -> None:
    out = np.zeros((COUNT, 16), np.float32)
    envs = make(out=out)
    envs.reset(seed=1)
    other = pickle.loads(pickle.dumps(envs))
    before = out.copy()
    other.step(actions())
    assert np.array_equal(out, before)
