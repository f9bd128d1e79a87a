"""What an application wants of a TCP socket, said to a running agent."""

import errno
import os
import socket

SOCKET = "/run/remuda.sock"
"""Where an agent listens, unless its run directory is another one."""
SOCKET_VARIABLE = "REMUDA_SOCKET"
"""An environment variable with another path."""

_NAMES = {"default": (1.0, 1.0), "delay": (0.0, 1.0), "throughput": (1.0, 0.0)}
_TIMEOUT_S = 2.0
_WEIGHT_MAX = 1_000
_ANSWER_BYTES_MAX = 1_024


def _weights(wants: str | tuple[float, float]) -> tuple[int, int]:
    weights = _NAMES.get(wants) if isinstance(wants, str) else wants
    if weights is None or len(weights) != 2 or not all(0 <= weight <= 1 for weight in weights):
        raise ValueError(
            f"wants = {wants!r}: it is one of {', '.join(_NAMES)}, or two weights of 0 to 1"
        )
    throughput, delay = (round(weight * _WEIGHT_MAX) for weight in weights)
    if throughput == delay == 0:
        raise ValueError(f"wants = {wants!r}: not both weights are below a thousandth")
    return throughput, delay


def prefer(
    sock: socket.socket, wants: str | tuple[float, float], *, path: str | None = None
) -> None:
    """Says to the agent what is wanted of a TCP socket: a policy then picks by it.

    It may be said before the socket connects, after it, and again. The descriptor is passed to the
    agent, which looks at whose it is and closes its copy. Nothing of the connection changes when
    there is no agent, or it refuses. It waits for four seconds at most.

    Args:
        sock: The socket. It must be of the caller's user, or the caller root.
        wants: "delay", "throughput", "default", or the weights of throughput and delay, 0 to 1.
        path: The agent's socket for applications, if not at `REMUDA_SOCKET` or /run/remuda.sock.

    Raises:
        ValueError: `wants` is neither a name nor two weights.
        PermissionError: The socket is another user's.
        BlockingIOError: The agent is asked too often.
        OSError: There is no agent, or it refuses what is no TCP connection.
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
        raise BlockingIOError(errno.EAGAIN, "the agent hung up: it is asked too often", path)
    number, space, why = answer.partition(" ")
    if not space or not number.isdecimal():
        raise OSError(errno.EPROTO, "it is no agent of Remuda", path)
    if number != "0":
        raise OSError(int(number), why, path)
