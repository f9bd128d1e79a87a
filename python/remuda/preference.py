"""Tells a running agent what a TCP socket prefers: throughput or delay."""

import errno
import os
import socket

SOCKET = "/run/remuda.sock"
"""The agent's socket in its default run directory."""
SOCKET_VARIABLE = "REMUDA_SOCKET"
"""An environment variable with the path of another socket."""

_NAMES = {"default": (1.0, 1.0), "delay": (0.0, 1.0), "throughput": (1.0, 0.0)}
_TIMEOUT_S = 2.0
_WEIGHT_MAX = 1_000
_ANSWER_BYTES_MAX = 1_024


def _weights(wants: str | tuple[float, float]) -> tuple[int, int]:
    weights = _NAMES.get(wants) if isinstance(wants, str) else wants
    if weights is None or len(weights) != 2 or not all(0 <= weight <= 1 for weight in weights):
        raise ValueError(
            f"wants = {wants!r}: must be one of {', '.join(_NAMES)}, or two weights from 0 to 1"
        )
    throughput, delay = (round(weight * _WEIGHT_MAX) for weight in weights)
    if throughput == delay == 0:
        raise ValueError(f"wants = {wants!r}: at least one weight must be 0.001 or more")
    return throughput, delay


def prefer(
    sock: socket.socket, wants: str | tuple[float, float], *, path: str | None = None
) -> None:
    """Sets how a policy weighs throughput and delay for a TCP socket.

    Call it before or after the socket connects; a later call replaces an earlier one. The function
    passes the descriptor to the agent, which checks the socket's owner and closes its copy. If no
    agent runs, or the agent refuses, the connection stays as it is. The call takes four seconds at
    most.

    Args:
        sock: The socket. The caller must own it, or be root.
        wants: "delay", "throughput", "default", or the weights of throughput and delay, 0 to 1.
        path: The agent's socket for applications [default: $REMUDA_SOCKET or /run/remuda.sock].

    Raises:
        ValueError: `wants` is neither a name nor two weights.
        PermissionError: The socket belongs to another user.
        BlockingIOError: The agent gets too many requests and hung up.
        OSError: No agent runs, or the socket is not a TCP connection.
    """
    throughput, delay = _weights(wants)
    path = path or os.environ.get(SOCKET_VARIABLE, SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.settimeout(_TIMEOUT_S)
        agent.connect(path)
        request = f"prefer {throughput} {delay}".encode()
        try:
            socket.send_fds(agent, [request], [sock.fileno()])
            answer = agent.recv(_ANSWER_BYTES_MAX).decode(errors="replace")
        except (ConnectionResetError, BrokenPipeError):
            answer = ""
    if not answer:
        why = "the agent hung up: too many requests; try again later"
        raise BlockingIOError(errno.EAGAIN, why, path)
    number, space, why = answer.partition(" ")
    if not space or not number.isdecimal():
        raise OSError(errno.EPROTO, "not the socket of a Remuda agent", path)
    if number != "0":
        raise OSError(int(number), why, path)
