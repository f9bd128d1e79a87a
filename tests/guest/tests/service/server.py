"""Serves downloads on a port of loopback: `server.py PORT [ALGORITHM]`.

The listening socket has the algorithm, if one is named. A client sends a number and a newline, and
gets that many chunks, one each tenth of a second, then the end of the stream.
"""

import hashlib
import selectors
import socket
import sys
import time

INTERVAL_S = 0.1

port, algorithm = int(sys.argv[1]), sys.argv[2:]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
for name in algorithm:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
listener.bind(("127.0.0.1", port))
listener.listen(100)
events = selectors.DefaultSelector()
events.register(listener, selectors.EVENT_READ)
# For each connection, the chunks that were sent and those that the client wants.
running = {}
due = time.monotonic()


def end(connection: socket.socket) -> None:
    """End the stream, with or without all chunks."""
    running.pop(connection, None)
    connection.close()


while True:
    for ready, _ in events.select(max(0, due - time.monotonic())):
        if ready.fileobj is listener:
            connection, _ = listener.accept()
            connection.settimeout(10)
            events.register(connection, selectors.EVENT_READ)
        else:
            connection = ready.fileobj
            events.unregister(connection)
            # The line is shorter than a packet.
            wanted = connection.recv(100)
            if wanted.endswith(b"\n"):
                running[connection] = (0, int(wanted))
            else:
                end(connection)
    if time.monotonic() < due:
        continue
    due = time.monotonic() + INTERVAL_S
    for connection, (sent, wanted) in list(running.items()):
        if sent == wanted:
            end(connection)
            continue
        try:
            connection.sendall(hashlib.sha256(str(sent).encode()).digest() * 160)
        except OSError:
            end(connection)
        else:
            running[connection] = (sent + 1, wanted)
