"""Peers that vanish, and many at the same time."""
import time

from harness.outcome import Failure
from . import Scenario

# ib_send_bw's queue pairs: timeout 14 (67 ms), 7 retries; the error comes within four times
# (7 + 1) of it, and the machine may be busy.
VANISHED_SECONDS = 4 * 8 * 0.067 + 3


def vanishes(bench):
    """kill -9 of one side gives the other a retry error in time; its slot is used again."""
    topology = bench.topology
    deadline = time.monotonic() + 40
    for number, victim_is_server in enumerate((True, False)):
        command = ["ib_send_bw", "-D", "20", "-p", str(18600 + number)]
        name = "server-dies-" if victim_is_server else "client-dies-"
        server = bench.start(topology.server, command, name + "server")
        bench.listening(topology.server, 18600 + number, server, deadline)
        client = bench.start(topology.client, command + [topology.server_v4], name + "client")
        time.sleep(1.5)
        if not (server.running() and client.running()):
            raise Failure("a side ended before it was killed")
        victim, partner = (server, client) if victim_is_server else (client, server)
        victim.kill()
        begin = time.monotonic()
        if victim_is_server:
            if partner.wait(begin + VANISHED_SECONDS) is None:
                raise Failure("the partner noticed nothing for %.1f s" % VANISHED_SECONDS)
            text = partner.output() + partner.errors()
            if "status 12" not in text and "transport retry counter exceeded" not in text:
                raise Failure("the partner did not report status 12")
        else:
            # A receiver that only waits has nothing that could time out.
            partner.kill()
        bench.pair(["ib_send_bw", "-p", str(18610 + number)], port=18610 + number,
                   name=name + "afterwards-")


def four_pairs(bench):
    """Four transfers at the same time, 20 seconds each."""
    topology = bench.topology
    deadline = time.monotonic() + 90
    servers, clients = [], []
    for port in range(18515, 18519):
        command = ["ib_write_bw", "-D", "20", "-p", str(port)]
        server = bench.start(topology.server, command, "server%d" % port)
        bench.listening(topology.server, port, server, deadline)
        servers.append(server)
    for port in range(18515, 18519):
        command = ["ib_write_bw", "-D", "20", "-p", str(port), topology.server_v4]
        clients.append(bench.start(topology.client, command, "client%d" % port))
    for process in clients + servers:
        bench.finish(process, deadline)


SCENARIOS = [
    Scenario("a peer vanishes", "lo veth1500", vanishes),
    Scenario("four pairs at the same time", "lo veth1500", four_pairs, exclusive=True),
]
