"""Deploys a policy that was trained in an environment, as an arm."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from remuda import _native
from remuda.author import NAME, Controller, Decision, Measurement, PathState
from remuda.settings import CongestionSettings


def PolicyArm(  # noqa: N802  # what it returns is a class
    settings: CongestionSettings,
    policy: Callable[..., Any],
    *,
    name: str = "trained",
    initial: Callable[[], Any] | None = None,
) -> type[Controller]:
    """An arm that does what `policy` says, from the observations of a `CongestionEnv`.

    The native part observes the flow with the code of the environment: the same features, history,
    warm-up and limits. A step is `step_rtts` of the shortest round trip that was measured, as an
    arm does not know the path's own. In a file for `--author`::

        import remuda

        mine = remuda.PolicyArm(SETTINGS, lambda observation: model(observation), name="mine")

    Args:
        settings: the settings of the training. `control` must be `"rate"` or `"window"`.
        policy: gets an observation, of shape `(history * 8,)`, and returns an action, from -1 to 1.
            With `initial`, it gets observation and state, and returns action and state.
        name: the arm's name.
        initial: returns the state of a recurrent policy at the start of a flow.

    Raises:
        ValueError: if a setting or the name breaks a rule; the message names it.
    """
    if not NAME.fullmatch(name):
        rule = "must be 1 to 32 small letters, digits or _, a letter first"
        raise ValueError(f"`name` is {name!r}: {rule}")
    native = settings.to_native()
    _native.Pilot(native)

    class Trained(Controller):
        """A trained policy."""

        def resume(self, path: PathState, now: float) -> Decision:
            self.pilot = _native.Pilot(native)
            self.observation = np.zeros(self.pilot.observation_len, np.float32)
            self.state = None if initial is None else initial()
            self.srtt = path.srtt
            self.decision = Decision(*self.pilot.resume(now, path.mss, path.cwnd, path.srtt))
            return self.decision

        def on_measurement(self, m: Measurement, now: float) -> Decision:
            rtt = None
            if m.rtt is not None:
                rtt = (m.rtt.min, m.rtt.mean * m.rtt.count, m.rtt.count)
                self.srtt = m.rtt.mean if self.srtt is None else 0.875 * self.srtt + m.rtt.mean / 8
            counts = (m.delivered, m.lost, m.ecn_marked, m.in_flight)
            rates = (m.send_rate, m.delivery_rate)
            if self.pilot.report(now, *counts, *rates, rtt, self.observation):
                seen = self.observation.copy()
                if initial is None:
                    action = policy(seen)
                else:
                    action, self.state = policy(seen, self.state)
                number = float(np.reshape(np.asarray(action), -1)[0])
                self.decision = Decision(*self.pilot.act(number, self.srtt))
            return self.decision

    # An author's arms are the classes of his file, so it is one of the caller's module.
    Trained.__module__ = sys._getframe(1).f_globals.get("__name__", __name__)
    Trained.name = name
    Trained.summary = "A policy trained in remuda's environment"
    return Trained
