"""Several flows, training sets, baselines, arms as actions, and deployed policies."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import external

import remuda

SELF_PLAY: dict[str, Any] = {
    "rtt_ms": (10, 30),
    "episode_steps": 8,
    "history": 2,
    "flows": 2,
    "stagger_s": (0, 0.1),
    "reward": "merit",
}


def zeros(count: int) -> np.ndarray[Any, Any]:
    return np.zeros((count, 1), np.float32)


def test_rows_of_a_simulation_share_its_path_and_start_together() -> None:
    envs = remuda.CongestionVecEnv(6, **SELF_PLAY)
    _, infos = envs.reset(seed=1)
    links = infos["bandwidth_mbit_per_sec"].reshape(3, 2)
    assert (links[:, 0] == links[:, 1]).all() and len(set(links[:, 0])) == 3
    begun = infos["starts"]
    for _ in range(8):
        _, rewards, _, truncated, infos = envs.step(zeros(6))
        assert (rewards[~infos["active"]] == 0).all()
        begun = begun | infos["starts"]
    assert begun.all() and truncated.all()
    _, rewards, _, _, infos = envs.step(zeros(6))
    assert not infos["active"].any() and infos["starts"][::2].all() and not rewards.any()


def test_copies_and_threads_change_nothing() -> None:
    one = remuda.CongestionVecEnv(4, **SELF_PLAY)
    one.reset(seed=3)
    for _ in range(5):
        one.step(zeros(4))
    two = pickle.loads(pickle.dumps(one))
    three = remuda.CongestionVecEnv(4, threads=3, **SELF_PLAY)
    three.reset(seed=3)
    for _ in range(5):
        three.step(zeros(4))
    for _ in range(12):
        steps = [envs.step(zeros(4)) for envs in (one, two, three)]
        for other in steps[1:]:
            assert np.array_equal(steps[0][0], other[0]) and np.array_equal(steps[0][1], other[1])


def test_one_environment_may_have_several_flows() -> None:
    env = remuda.CongestionEnv(scenario=external(count=3), flows=3, episode_steps=5)
    observation, info = env.reset(seed=1)
    assert observation.shape == (3, 80) and info["starts"].all()
    for step in range(5):
        observation, reward, terminated, truncated, info = env.step(np.zeros((3, 1), np.float32))
        assert env.observation_space.contains(observation) and not terminated
        assert reward == pytest.approx(info["rewards"].mean()) and truncated == (step == 4)
    with pytest.raises(ValueError, match="must have exactly one flow with driver"):
        remuda.CongestionEnv(scenario=external(count=3))
    with pytest.raises(ValueError, match="`num_envs` is 3: must be a multiple of `flows`"):
        remuda.CongestionVecEnv(3, flows=2)


def test_neighbours_take_their_share() -> None:
    settings: dict[str, Any] = {"bandwidth_mbit_per_sec": 12, "rtt_ms": 20, "episode_steps": 150}
    alone = remuda.CongestionEnv(**settings).baseline("cubic", 1)
    beside = remuda.CongestionEnv(neighbours=["cubic"], **settings).baseline("cubic", 1)
    throughput = remuda.METRICS.index("throughput_mbit_per_sec")
    means = [it.metrics[50:, 0, throughput].mean() for it in (alone, beside)]
    assert means[0] > 9 and 2 < means[1] < 0.8 * means[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"scenarios": [external(), external(init_cwnd_pkts=20)]},
        {"suite": "drawn:0..9600"},
        {"suite": "thin:0..5"},
        {"families": ["wifi", "drawn"]},
        {"without": "cellular"},
        {"draws": [3, 17]},
        {"families": ["aqm"], "draws": range(5, 9)},
        {"jitter_ms": (0.5, 2), "jitter_correlation": (0, 0.9)},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_a_training_set_is_of_many_kinds(changes: dict[str, Any]) -> None:
    env = remuda.CongestionEnv(episode_steps=3, reward="merit", **changes)
    paths = set()
    for seed in range(4):
        _, info = env.reset(seed=seed)
        paths.add((info["bandwidth_mbit_per_sec"], info["base_rtt_ms"]))
        for _ in range(3):
            _, reward, *_ = env.step(np.zeros(1, np.float32))
            assert np.isfinite(reward) and reward < 1
    assert len(paths) > 1 or "scenarios" in changes
    assert set(remuda.FAMILIES) >= {"cellular", "wifi", "satellite", "policed"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"families": ["desert"]}, "`families` must name families: wired"),
        ({"suite": "drawn:5..3"}, "must be a range of 1 to 100000 seeds"),
        ({"suite": "nothing"}, "must be drawn:FROM..TO, a file, or one of: smoke"),
        ({"suite": "smoke", "scenarios": []}, "`suite` is set beside `scenarios`"),
        ({"suite": "smoke", "without": "wifi"}, "`without` is set beside `suite`"),
        ({"scenarios": []}, "`scenarios` is empty: leaves nothing to train on"),
        ({"draws": [-1]}, "`draws` is [-1]: must be a range"),
        ({"flows": 101}, "`flows` is 101: must be from 1 to 100"),
        ({"companion": "nobody"}, "nobody"),
        ({"alone": True}, "`alone` is True: it is for `scenarios`, `suite` and families"),
        ({"alone": "yes"}, "`alone` is 'yes': must be True or False"),
        ({"reward": "praise"}, '`reward` is "praise": must be'),
        ({"control": "arm"}, "`arms` is []: must name 2 to 64"),
        ({"arms": ["cubic", "bbr"]}, "`arms` is [cubic, bbr]: is for control"),
        ({"preference": (0, 0)}, "`preference` is (0, 0): must be"),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        remuda.CongestionEnv(**changes)
    assert expected in str(caught.value)


def test_arms_are_discrete_actions() -> None:
    envs = remuda.CongestionVecEnv(2, control="arm", arms=["cubic", "copa"], episode_steps=4)
    envs.reset(seed=1)
    for _ in range(4):
        _, _, _, truncated, _ = envs.step(envs.action_space.sample())
    assert truncated.all()
    env = remuda.CongestionEnv(control="arm", arms=["cubic", "copa"], episode_steps=4)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    with pytest.raises(ValueError, match="the action is"):
        env.step(np.array(2))


def test_the_oracle_beats_arms_by_its_knowledge() -> None:
    env = remuda.CongestionEnv(suite="steps:3..4", reward="merit", episode_steps=200)
    means = {name: env.baseline(name, 1).mean for name in ("oracle", "cubic", "bbr")}
    assert means["oracle"] == max(means.values())
    with pytest.raises(ValueError, match="nobody"):
        env.baseline("nobody", 1)


ARM = """
    import remuda

    def policy(observation, state):
        assert observation.shape == (16,)
        return (0.5 if observation[-7] < 1.3 else -0.5), state + 1

    SETTINGS = remuda.CongestionSettings(history=2, action_scale=0.25)
    mine = remuda.PolicyArm(SETTINGS, policy, name="mine", initial=lambda: 0)
"""


def test_what_was_trained_is_an_authors_arm(tmp_path: Path) -> None:
    author = tmp_path / "mine.py"
    author.write_text(textwrap.dedent(ARM))
    module: dict[str, Any] = {"__name__": "mine"}
    exec(compile(author.read_text(), str(author), "exec"), module)  # our own text
    controller = module["mine"]()
    assert module["mine"].__module__ == "mine" and module["mine"].name == "mine"
    decision = controller.resume(remuda.PathState(mss=1448, cwnd=14_480, srtt=0.04), 0.0)
    assert decision.cwnd == 28_960 and decision.rate == pytest.approx(362_000)
    rtt = remuda.RttSamples(last=0.04, min=0.04, max=0.04, mean=0.04, std=0.0, count=10)
    for step in range(1, 9):
        m = remuda.Measurement(
            acked=14_480,
            delivered=14_480,
            lost=0,
            ecn_marked=0,
            timed_out=False,
            rtt=rtt,
            send_rate=362_000,
            delivery_rate=362_000,
            in_flight=14_480,
            app_limited=False,
            in_recovery=False,
            cwnd=28_960,
            own={},
        )
        decision = controller.on_measurement(m, 0.0401 * step)
    assert decision.rate is not None and decision.rate > 362_000 * 1.5
    assert controller.state == 6, "after three steps of warm-up, the third of which it sees"
    with pytest.raises(ValueError, match="`name` is 'No'"):
        remuda.PolicyArm(remuda.CongestionSettings(), lambda _: 0, name="No")
    served = subprocess.run(
        [sys.executable, "-c", "import remuda; print(remuda.PolicyArm.__name__)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert served.stdout.strip() == "PolicyArm"
