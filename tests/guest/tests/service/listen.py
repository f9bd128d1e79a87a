"""Starts nginx with a listening socket of its own choice: `listen.py PORT ALGORITHM CONFIGURATION`.

The socket has the algorithm. nginx takes over the listening socket whose descriptor the variable
NGINX names, if a `listen` of its configuration has the same address.
"""

import os
import socket
import sys

port, algorithm, configuration = int(sys.argv[1]), sys.argv[2], sys.argv[3]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
listener.bind(("127.0.0.1", port))
listener.listen(100)
listener.set_inheritable(True)
os.environ["NGINX"] = f"{listener.fileno()};"
os.execv("/usr/sbin/nginx", ["nginx", "-c", configuration])
