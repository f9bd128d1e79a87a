"""Serves downloads on a port of loopback: `server.py PORT [ALGORITHM]`.

The listening socket has the algorithm, if one is named. A client gets a chunk each tenth of a
second until it ends its direction of the stream, and then the number of chunks.
"""

import hashlib
import selectors
import socket
import sys
import time

INTERVAL_S = 0.1
NUMBER_BYTES = 16

port, algorithm = int(sys.argv[1]), sys.argv[2:]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
for name in algorithm:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
listener.bind(("127.0.0.1", port))
listener.listen(100)
events = selectors.DefaultSelector()
events.register(listener, selectors.EVENT_READ)
# For each connection, the number of chunks that were sent.
running = {}
due = time.monotonic()


def send(connection: socket.socket, data: bytes) -> None:
    """Send all of it; a connection that fails is over."""
    try:
        connection.sendall(data)
    except OSError:
        running.pop(connection)
        events.unregister(connection)
        connection.close()


while True:
    for ready, _ in events.select(max(0, due - time.monotonic())):
        if ready.fileobj is listener:
            connection, _ = listener.accept()
            connection.settimeout(30)
            events.register(connection, selectors.EVENT_READ)
            running[connection] = 0
            continue
        # A client sends nothing, so this is its end.
        connection = ready.fileobj
        send(connection, str(running[connection]).zfill(NUMBER_BYTES).encode())
        if connection in running:
            running.pop(connection)
            events.unregister(connection)
            connection.close()
    if time.monotonic() < due:
        continue
    due = time.monotonic() + INTERVAL_S
    for connection, sent in list(running.items()):
        running[connection] = sent + 1
        send(connection, hashlib.sha256(str(sent).encode()).digest() * 160)
