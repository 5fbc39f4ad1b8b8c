"""A million packets that nobody asked for, while pairs of programs do their work."""
import os
import re
import time

from ask import agent_pid, alive, drops
from harness.outcome import Failure
from . import Scenario

PACKETS = 1000000
# As many as a machine under load takes beside its own work: more would only fill the kernel's
# receive buffers, and prove nothing about who reads them.
PER_SECOND = 40000
SECONDS = 40
PAIRS = (["ib_write_bw", "-s", "4096"], ["ib_read_bw", "-s", "4096"], ["ib_atomic_bw"],
         ["ib_write_bw", "--ipv6", "-s", "4096"])
# What the sender makes is in c/storm.c, and why nothing of it may disturb a connection.


def sources(topology, family):
    """The target's address, that of the pairs' other side, and one that is nobody's peer."""
    if topology.kind == "lo":
        if family == 4:
            return "127.0.0.1", "127.0.0.1", "127.0.0.2"
        topology.client.ip_command("addr", "add", "fd99::9/128", "dev", "lo", "nodad")
        return "::1", "::1", "fd99::9"
    if family == 4:
        topology.client.ip_command("addr", "add", "10.99.0.3/24", "dev", "veth0")
        return topology.server_v4, "10.99.0.2", "10.99.0.3"
    topology.client.ip_command("addr", "add", "fd99::3/64", "dev", "veth0", "nodad")
    return topology.server_v6, "fd99::2", "fd99::3"


def queue_pair_number(process, deadline):
    """The number that perftest prints of its own queue pair."""
    while time.monotonic() < deadline:
        found = re.search(r"local address: .*QPN (0x[0-9a-f]+)", process.output())
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise Failure("the %s printed no QPN" % process.label)


def storm(bench):
    """Pairs end with status 0, the agent lives, and what was dropped is counted."""
    topology = bench.topology
    server_space = topology.server
    deadline = time.monotonic() + 240
    processes, servers = [], []
    for number, command in enumerate(PAIRS):
        port = 19100 + number
        words = ["stdbuf", "-o0"] + command + ["-D", str(SECONDS), "-p", str(port)]
        server = bench.start(server_space, words, "server%d" % number)
        bench.listening(server_space, port, server, deadline)
        client = bench.start(topology.client, words + [topology.server_v4], "client%d" % number)
        servers.append(server)
        processes += [client, server]
    numbers = [queue_pair_number(server, deadline) for server in servers]
    # Only now: perftest takes the newest address for its own, and then it would be the peer's.
    ways = [sources(topology, family) for family in (4, 6)]
    device = "roce_" + topology.netdev
    pid = agent_pid(bench, server_space, "status-before", patience=10)
    before = drops(bench, server_space, device, "before")
    # The seed decides what is sent; `CONVERB_SEED` plays another one.
    seed = os.environ.get("CONVERB_SEED", "1")
    storms = [bench.start(topology.client,
                          ["storm"] + list(way) + [str(PACKETS // 2), str(PER_SECOND // 2), seed]
                          + numbers, "storm-v%d" % family, bare=True)
              for family, way in zip((4, 6), ways)]
    for process in storms:
        bench.finish(process, deadline)
    for process in processes:
        if process.popen.poll() not in (None, 0):
            raise Failure("the %s did not survive the storm: status %d"
                          % (process.label, process.popen.poll()))
    if not any(process.running() for process in processes):
        raise Failure("all pairs ended before the storm did: nothing was disturbed")
    for process in processes:
        bench.finish(process, deadline)
    if not alive(pid) or agent_pid(bench, server_space, "status-after") != pid:
        raise Failure("the agent, pid %d, did not survive" % pid)
    grown = drops(bench, server_space, device, "after") - before
    # What overflows a socket's buffer and what the network itself loses is beyond our count.
    if grown < PACKETS // 2:
        raise Failure("of %d packets only %d are counted as dropped" % (PACKETS, grown))
    bench.pair(["ib_write_bw", "-n", "100", "-p", "19200"], port=19200, name="last-")


SCENARIOS = [Scenario("a million packets that nobody asked for", "lo veth1500", storm,
                      exclusive=True)]
