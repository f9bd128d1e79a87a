"""Connects, sets delay to count four times as much as throughput, and sends standard input.

python prefer.py 127.0.0.1 8080 < FILE
"""

import socket
import sys

from remuda import prefer

address, port, algorithm = [*sys.argv[1:], "remuda"][:3]
with socket.socket() as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    try:
        prefer(connection, (0.25, 1.0))
    except OSError as error:
        print("going on without a preference:", error, file=sys.stderr)
    connection.connect((address, int(port)))
    while chunk := sys.stdin.buffer.read1(4096):
        connection.sendall(chunk)
