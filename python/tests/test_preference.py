"""The requests of `prefer`, and its reactions to answers; this test acts as the agent."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remuda.preference import prefer


class Agent:
    """Gives each client the same answer."""

    def __init__(self, path: Path) -> None:
        """Binds the path."""
        self.path = str(path)
        self.answer = b"0 12"
        self.heard: list[tuple[bytes, int]] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(4)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        """Answers clients until one sends nothing."""
        while True:
            client, _ = self.socket.accept()
            with client:
                request, passed, _, _ = socket.recv_fds(client, 100, 8)
                if not request:
                    return
                for descriptor in passed:
                    os.close(descriptor)
                self.heard.append((request, len(passed)))
                if self.answer:
                    client.send(self.answer)

    def end(self) -> None:
        """Connects and sends nothing, which ends the agent."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(self.path)
        self.thread.join()
        self.socket.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent that ends with the test."""
    started = Agent(tmp_path / "agent.sock")
    yield started
    started.end()


@pytest.mark.parametrize(
    ("wants", "request_"),
    [
        ("default", b"prefer 1000 1000"),
        ("delay", b"prefer 0 1000"),
        ("throughput", b"prefer 1000 0"),
        ((0.7, 1), b"prefer 700 1000"),
    ],
)
def test_weights_are_said_in_thousandths(
    agent: Agent, wants: str | tuple[float, float], request_: bytes
) -> None:
    with socket.socket() as sock:
        prefer(sock, wants, path=agent.path)
    assert agent.heard == [(request_, 1)]


@pytest.mark.parametrize("wants", ["", "fast", (0, 0), (2, 1), (-1, 1), (1,), (float("nan"), 1)])
def test_anything_else_reaches_nobody(wants: str | tuple[float, float]) -> None:
    with socket.socket() as sock, pytest.raises(ValueError, match="wants = "):
        prefer(sock, wants, path="/nonexistent")


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (b"1 the socket is another user's", PermissionError, "another user's"),
        (b"95 the socket listens", OSError, "listens"),
        (b"", BlockingIOError, "too many requests"),
        (b"hello", OSError, "not the socket"),
        (b"-1 x", OSError, "not the socket"),
    ],
)
def test_a_refusal_is_an_error_of_its_kind(
    agent: Agent, answer: bytes, error: type[OSError], text: str
) -> None:
    agent.answer = answer
    with socket.socket() as sock, pytest.raises(error, match=text) as raised:
        prefer(sock, "delay", path=agent.path)
    assert raised.value.filename == agent.path


def test_without_an_agent_it_says_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "none.sock")
    monkeypatch.setenv("REMUDA_SOCKET", path)
    with socket.socket() as sock, pytest.raises(FileNotFoundError):
        prefer(sock, "delay")
