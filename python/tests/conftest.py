"""Scenarios that several test files use."""

from typing import Any

import pytest


def two_flows(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Two constant windows over a link of 12 Mbit/s and 40 ms; they need no agent."""
    scenario: dict[str, Any] = {
        "name": "two windows",
        "duration_s": 5,
        "seed": 3,
        "sample_ms": 100,
        "links": {
            "down": {
                "rate_mbit_per_sec": 12,
                "delay_ms": 20,
                "queue": {"kind": "droptail", "limit_bdp": 2},
            },
            "up": {"delay_ms": 20},
        },
        "flows": [{"driver": "window:15", "count": 2}],
    }
    return scenario | changes


def external(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """The same link with a flow that an environment drives."""
    return two_flows(flows=[{"driver": "external", **changes}])


@pytest.fixture
def scenario() -> dict[str, Any]:
    """A scenario that is simulated within a moment."""
    return two_flows()
