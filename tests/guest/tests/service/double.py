"""Runs in the agent's place, and tries to have the broker do what it must not.

Prints a line for each thing that it could do; the last line is `all tried`.
"""

import ctypes
import errno
import os
import random
import socket
import struct

BROKER = "/run/remuda-broker/agent.sock"
START, INSTALL, LOOKER, RECALL, CHECK_NATIVE, LET_GO, VACATE = range(7)
# The kinds of descriptor that the broker may hand over.
HARMLESS = ("anon_inode:bpf-map", "anon_inode:bpf_link")
BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, SYS_BPF = 2, 5, 321
DESCRIPTORS_MAX = 250

libc = ctypes.CDLL(None, use_errno=True)


def connect() -> socket.socket:
    """Connect as the agent does."""
    broker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    broker.settimeout(60)
    broker.connect(BROKER)
    return broker


def ask(
    broker: socket.socket, request: bytes, descriptors: tuple[int, ...] = ()
) -> tuple[bytes, list[int]]:
    """Return the reply and its descriptors."""
    socket.send_fds(broker, [request], descriptors)
    packet, received, _, _ = socket.recv_fds(broker, 70_000, DESCRIPTORS_MAX)
    return packet, received


def refused(what: str, packet: bytes, rule: bytes) -> None:
    """Print a line if the reply is not an error with this rule."""
    if packet[:1] != b"\x01" or rule not in packet:
        print(f"{what}: {packet[:200]!r} where {rule!r} was due")


def bpf(command: int, *words: tuple[int, int]) -> str | None:
    """Make the system call with a value and a size for each attribute; return its error."""
    attributes = b"".join(word.to_bytes(size, "little") for word, size in words)
    attributes = attributes.ljust(128, b"\0")
    done = libc.syscall(SYS_BPF, command, attributes, len(attributes))
    return errno.errorcode[ctypes.get_errno()] if done < 0 else None


broker = connect()
for request in ([INSTALL, 1, 2], [LOOKER], [CHECK_NATIVE, ord("x")]):
    refused("before a start", ask(broker, bytes(request))[0], b"must be a start")
for kind in range(VACATE + 1, 256):
    refused(f"kind {kind}", ask(broker, bytes([kind]))[0], b"no request of kind")
with open("/dev/null", "rb") as file:
    refused("a descriptor", ask(broker, bytes([START]), (file.fileno(),))[0], b"no descriptors")
refused("a sid of one byte", ask(broker, bytes([VACATE, 1]))[0], b"a sid has 4 bytes")
refused("a start with more", ask(broker, bytes([START, 7]))[0], b"nothing after its kind")

started, held = ask(broker, bytes([START]))
if started[:1] != b"\0" or not held:
    print(f"no start: {started!r}")
_, lookers = ask(broker, bytes([LOOKER]))
for descriptor in held + lookers:
    kind = os.readlink(f"/proc/self/fd/{descriptor}")
    if not kind.startswith(HARMLESS):
        print(f"the broker handed over {kind}")

# A file or a module by way of a name.
for name in ("../../etc/passwd", "/etc/passwd", "dummy", "no_such"):
    packet, _ = ask(broker, bytes([CHECK_NATIVE]) + name.encode())
    refused(f"algorithm {name}", packet, b"")
refused("a long name", ask(broker, bytes([CHECK_NATIVE]) + b"x" * 16)[0], b"too long")
with open("/proc/modules", encoding="ascii") as modules:
    if any(line.startswith("dummy ") for line in modules):
        print("the broker loaded a module that is no algorithm")

# A program that nothing has validated.
rng = random.Random(33)
for length in (0, 1, 4, 16, 100, 1_000, 32_678, 60_000):
    for _ in range(10):
        packet, _ = ask(broker, bytes([INSTALL]) + rng.randbytes(length))
        refused(f"a program of {length} random bytes", packet, b"")
load = bpf(BPF_PROG_LOAD, (1, 4), (2, 4), (0, 8), (0, 8))
if load != "EPERM":
    print(f"this process may load programs: {load}")
tables = 0
for descriptor in held:
    key, value = ctypes.c_uint32(0), ctypes.c_uint32(held[0])
    key_at, value_at = ctypes.addressof(key), ctypes.addressof(value)
    if "bpf-map" in os.readlink(f"/proc/self/fd/{descriptor}"):
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as info:
            is_table = any(line.split() == ["map_type:", "3"] for line in info)
        tables += is_table
        words = (descriptor, 4), (0, 4), (key_at, 8), (value_at, 8), (0, 8)
        if is_table and (changed := bpf(BPF_MAP_UPDATE_ELEM, *words)) != "EPERM":
            print(f"this process may change the table of programs: {changed}")
if not tables:
    print("the table of programs is not among the maps")

# A namespace by way of its number, or by itself.
others = (os.stat(f"/proc/self/ns/{name}").st_ino for name in ("mnt", "net", "pid", "user"))
broker.send(bytes([RECALL]) + struct.pack("=4I", *others))
refused("half a number", ask(broker, bytes([RECALL, 1, 2]))[0], b"inode numbers")
try:
    os.setns(os.open("/proc/1/ns/net", os.O_RDONLY), os.CLONE_NEWNET)
    print("this process enters the host's network namespace")
except OSError:
    pass

second = connect()
packet, _, _, _ = socket.recv_fds(second, 70_000, DESCRIPTORS_MAX)
refused("a second agent", packet, b"an agent is connected")
print("all tried")
