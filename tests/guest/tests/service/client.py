"""Downloads a file again and again until another one exists: `client.py PORT CONNECTIONS FILE`.

Each connection gets `/run/www/data` from the web server on that port of loopback, one download
after the other. Prints `driven` once `remuda flows` shows that the agent drives the server's end of
every connection, and `exact` once every byte has arrived as the file has it. Its status is 0 if it
printed both.
"""

import json
import pathlib
import select
import socket
import subprocess
import sys
import time

ASK_EVERY_S = 0.5
REQUEST = b"GET /data HTTP/1.1\r\nHost: guest\r\n\r\n"
HEAD_END = b"\r\n\r\n"

port, connections, end = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
content = pathlib.Path("/run/www/data").read_bytes()


class Download:
    """One answer of the server; the program ends if it is not the file."""

    def __init__(self) -> None:
        self.head = b""
        self.received = 0

    def take(self, data: bytes) -> bool:
        """Take the next bytes; return whether the file has arrived whole."""
        if HEAD_END not in self.head:
            self.head, ended, data = (self.head + data).partition(HEAD_END)
            if not ended:
                return False
            lines = self.head.split(b"\r\n")
            length = f"Content-Length: {len(content)}".encode()
            if not lines[0].startswith(b"HTTP/1.1 200 ") or length not in lines:
                sys.exit(f"an answer begins with {self.head!r}")
            self.head += ended
        if data != content[self.received : self.received + len(data)]:
            sys.exit("a download is not what was sent")
        self.received += len(data)
        return self.received == len(content)


downloads = {
    socket.create_connection(("127.0.0.1", port), timeout=60): Download()
    for _ in range(connections)
}
own = {f"127.0.0.1:{connection.getsockname()[1]}" for connection in downloads}
server = f"127.0.0.1:{port}"


def are_driven() -> bool:
    """Whether `remuda flows` shows the server's end of all connections as driven."""
    asked = subprocess.run(["remuda", "flows", "--json"], capture_output=True, check=False)
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    ours = (row for row in rows if row["local"] == server and row["state"] == "driven")
    return own <= {row["remote"] for row in ours}


for connection in downloads:
    connection.sendall(REQUEST)
downloading = set(downloads)
driven = False
ask_at = 0.0
while downloading:
    ready, _, _ = select.select(list(downloading), [], [], ASK_EVERY_S)
    for connection in ready:
        data = connection.recv(65536)
        if not data:
            sys.exit("a connection ended before its download")
        if not downloads[connection].take(data):
            continue
        if end.exists():
            downloading.remove(connection)
            continue
        downloads[connection] = Download()
        connection.sendall(REQUEST)
    if not driven and time.monotonic() >= ask_at:
        driven = are_driven()
        ask_at = time.monotonic() + ASK_EVERY_S
        if driven:
            print("driven", flush=True)

print("exact", flush=True)
if not driven:
    sys.exit("the agent did not drive every connection")
