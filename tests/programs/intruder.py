#!/usr/bin/env python3
"""Tries, as another user than the agent's, to get at the agent's user's packets.

Joins by the wire protocol as a member does, and then tries everything that a slot's socket would
allow; the arguments are the slots of the other user's programs. Prints what succeeded and should
not have, and ends with status 1 then.
"""
import array
import ctypes
import errno
import os
import select
import socket
import struct
import sys
import time

MAGIC, VERSION, FEATURES = b"CVAG", 1, 1
HELLO, RING_QUERY, STOP, FAILURES_QUERY = 1, 7, 6, 8
WELCOME, SLOTS, REFUSED, GOODBYE, RING, FAILURES, CARRIED = (
    0x8001, 0x8002, 0x8003, 0x8007, 0x8008, 0x8009, 0x800a)
JOIN, REJOIN, OBSERVE, JOIN_CARRIED, REJOIN_CARRIED = range(5)
SO_ATTACH_REUSEPORT_CBPF, SO_DETACH_REUSEPORT_BPF, SO_ATTACH_FILTER = 51, 68, 26
PORT = 4791
successes = []


def succeeded(what):
    """Notes what must not happen."""
    print("succeeded: " + what, flush=True)
    successes.append(what)


def message(kind, fields=b""):
    """A message of the agent's protocol."""
    return MAGIC + struct.pack("<HHI", VERSION, kind, FEATURES) + fields


def hello(role, fields=b""):
    """The first message of a connection."""
    return message(HELLO, b"intruder".ljust(16, b"\0") + bytes([role]) + fields)


def rejoin(role, group, slots):
    """A claim of slots."""
    fields = struct.pack("<QBH", group, 1, len(slots))
    return hello(role, fields + b"".join(struct.pack("<H", slot) for slot in slots))


def connect():
    """A connection to the agent."""
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    agent.settimeout(2)
    agent.connect(b"\0converb/agent/1")
    return agent


def receive(agent):
    """The kind and fields of the next message, and the descriptors that came with it."""
    try:
        data, control, _, _ = agent.recvmsg(8192, socket.CMSG_SPACE(4 * 64))
    except (TimeoutError, ConnectionError):
        return None, b"", []
    descriptors = array.array("i")
    for level, kind, part in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(part[:len(part) - len(part) % 4])
    if len(data) < 12:
        return None, b"", list(descriptors)
    return struct.unpack_from("<H", data, 6)[0], data[12:], list(descriptors)


def is_network_socket(descriptor):
    """Whether a descriptor is a socket of the internet's."""
    with socket.socket(fileno=os.dup(descriptor)) as made:
        return made.family in (socket.AF_INET, socket.AF_INET6)


def attempt(what, call):
    """Calls what has to fail."""
    try:
        call()
    except OSError as error:
        print("%s: %s" % (what, errno.errorcode.get(error.errno, error)), flush=True)
        return
    succeeded(what)


def selector():
    """A program that would give every packet to socket 1."""
    instruction = ctypes.create_string_buffer(struct.pack("<HBBI", 0x06, 0, 0, 1))
    program = struct.pack("<HxxxxxxQ", 1, ctypes.addressof(instruction))
    return program, instruction


def abuse(descriptor, what):
    """What the holder of a slot's socket could do to the group."""
    held = socket.socket(fileno=descriptor)
    program, kept = selector()
    attempt(what + ": remove the selector",
            lambda: held.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0))
    attempt(what + ": replace the selector",
            lambda: held.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program))
    # Python has to take it for one of the internet's to pass such an address.
    as_udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, fileno=os.dup(descriptor))
    attempt(what + ": connect it", lambda: as_udp.connect(("127.0.0.1", 9)))
    attempt(what + ": send by it", lambda: held.send(b"\0" * 100, socket.MSG_NOSIGNAL))
    attempt(what + ": pass a descriptor by it",
            lambda: socket.send_fds(held, [b"\0" * 100], [0], socket.MSG_NOSIGNAL))
    del kept
    return held


def join():
    """Becomes a member in both ways; neither gives a socket, a vault or a ring."""
    ends, group, own = [], 0, []
    connections = []
    for role in (JOIN, JOIN_CARRIED):
        agent = connect()
        connections.append(agent)
        socket.send_fds(agent, [hello(role, struct.pack("<H", 1))], [0, 1])
        kind, fields, descriptors = receive(agent)
        if kind == WELCOME or descriptors:
            succeeded("a welcome with %d descriptors" % len(descriptors))
            continue
        if kind != CARRIED:
            succeeded("an answer of another kind, %r" % kind)
            continue
        group = struct.unpack_from("<Q", fields)[0]
        kind, fields, descriptors = receive(agent)
        own.append(struct.unpack_from("<H", fields, 2)[0])
        for descriptor in descriptors:
            if is_network_socket(descriptor):
                succeeded("a slot's own socket")
        ends += descriptors
    return connections, ends, group, own


def claim(group, slots, own):
    """Claims the slots of others, alone and with its own."""
    for role in (REJOIN, REJOIN_CARRIED):
        for claimed in [[slot] for slot in slots] + [slots, slots[:1] + own, own, [0], [1]]:
            agent = connect()
            agent.send(rejoin(role, group, claimed))
            kind, _, descriptors = receive(agent)
            # Its own it may have again.
            if claimed != own and (kind != REFUSED or descriptors):
                succeeded("a claim of slots %r, answered by %r" % (claimed, kind))


def ask(connections, slots):
    """Asks for what is the agent's user's alone."""
    for agent in connections:
        for slot in slots:
            agent.send(message(RING_QUERY, struct.pack("<H", slot)))
        kind, _, descriptors = receive(agent)
        if kind is not None or descriptors:
            succeeded("a ring query, answered by %r" % kind)
    for what, request in (("stop", message(STOP, b"\1")),
                          ("failures", message(FAILURES_QUERY, b"\0\0"))):
        agent = connect()
        agent.send(hello(OBSERVE))
        receive(agent)
        agent.send(request)
        kind, _, _ = receive(agent)
        if kind != REFUSED:
            succeeded("a request for %s, answered by %r" % (what, kind))


def main():
    """Everything, and then a look at what arrives."""
    slots = [int(word) for word in sys.argv[1:]]
    for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"),
                         (socket.AF_INET, "127.0.0.1")):
        rival = socket.socket(family, socket.SOCK_DGRAM)
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        attempt("bind %s" % host, lambda: rival.bind((host, PORT)))
    connections, ends, group, own = join()
    if not ends:
        succeeded("nothing was granted, so nothing was tried")
    held = [abuse(end, "the end of a pair") for end in ends]
    ask(connections, slots)
    # Whatever arrives here has to be for its own slots.
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for end in select.select(held, [], [], 0.2)[0]:
            data = end.recv(1 << 17, socket.MSG_DONTWAIT)
            segment = struct.unpack_from("=I", data, 40)[0] if len(data) > 64 else 0
            # Behind the envelope, the destination queue pair of each packet.
            for at in range(64 + 5, len(data) - 2, segment or len(data)):
                slot = struct.unpack_from(">H", data, at)[0] >> 6
                if slot not in own:
                    succeeded("a packet of slot %d" % slot)
    claim(group, slots, own)
    return 1 if successes else 0


if __name__ == "__main__":
    sys.exit(main())
