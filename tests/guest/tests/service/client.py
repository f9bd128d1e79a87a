"""Downloads from `server.py` until a file exists: `client.py PORT CONNECTIONS FILE`.

Prints `driven` once `remuda flows` shows that the agent drives the server's end of every
connection, and `exact` once every byte has arrived as it was sent. Its status is 0 if it printed
both.
"""

import hashlib
import json
import pathlib
import select
import socket
import subprocess
import sys
import time

ASK_EVERY_S = 0.5
NUMBER_BYTES = 16

port, connections, end = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
received = {
    socket.create_connection(("127.0.0.1", port), timeout=60): bytearray()
    for _ in range(connections)
}
own = {f"127.0.0.1:{connection.getsockname()[1]}" for connection in received}
server = f"127.0.0.1:{port}"


def are_driven() -> bool:
    """Whether `remuda flows` shows the server's end of all connections as driven."""
    asked = subprocess.run(["remuda", "flows", "--json"], capture_output=True, check=False)
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    ours = (row for row in rows if row["local"] == server and row["state"] == "driven")
    return own <= {row["remote"] for row in ours}


def is_exact(data: bytearray) -> bool:
    """Whether these are all chunks, and their number."""
    chunks = int(data[-NUMBER_BYTES:] or b"0")
    parts = (hashlib.sha256(str(part).encode()).digest() * 160 for part in range(chunks))
    return chunks > 0 and data[:-NUMBER_BYTES] == b"".join(parts)


downloading = set(received)
driven = False
ending = False
ask_at = 0.0
while downloading:
    ready, _, _ = select.select(list(downloading), [], [], ASK_EVERY_S)
    for connection in ready:
        data = connection.recv(65536)
        received[connection] += data
        if not data:
            downloading.remove(connection)
    if not driven and time.monotonic() >= ask_at:
        driven = are_driven()
        ask_at = time.monotonic() + ASK_EVERY_S
        if driven:
            print("driven", flush=True)
    if not ending and end.exists():
        ending = True
        for connection in downloading:
            connection.shutdown(socket.SHUT_WR)

wrong = sum(not is_exact(data) for data in received.values())
if wrong:
    sys.exit(f"{wrong} of {connections} downloads are not what was sent")
print("exact", flush=True)
if not driven:
    sys.exit("the agent did not drive every connection")
