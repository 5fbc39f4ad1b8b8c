"""Connections by address that take more than a server and a client."""
import os
import signal
import socket
import struct
import subprocess
import time

from ask import agent_pid, ask_json
from harness.outcome import Failure, tail
from pair import end
from . import Scenario
from .packets import captured, roce

CLIENTS = 8


def many_clients(bench):
    """A server that serves for ever, and clients that come one after the other and stay."""
    topology = bench.topology
    deadline = time.monotonic() + 60
    server = bench.start(topology.server, ["rping", "-s", "-P", "-V"], "server")
    bench.serving(topology.server, server, deadline)
    clients = []
    for number in range(CLIENTS):
        words = ["rping", "-c", "-a", topology.server_v4, "-C", "1000", "-V"]
        clients.append(bench.start(topology.client, words, "client%d" % number))
        time.sleep(0.5)
    for client in clients:
        bench.finish(client, deadline)
    end(server, deadline)


def survives_agent(bench):
    """A listener is found after the agent was killed, by its successor."""
    topology = bench.topology
    deadline = time.monotonic() + 60
    server = bench.start(topology.server, ["rping", "-s", "-P", "-V"], "server")
    bench.serving(topology.server, server, deadline)
    for number in range(3):
        before = agent_pid(bench, topology.server)
        os.kill(before, signal.SIGKILL)
        words = ["rping", "-c", "-a", topology.server_v4, "-C", "10", "-V"]
        bench.finish(bench.start(topology.client, words, "client%d" % number), deadline)
        if agent_pid(bench, topology.server) == before:
            raise Failure("the agent was not killed")
    end(server, deadline)


MESSAGES = ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest", "DisconnectReply")
# What Linux's rping asks its kernel's connection manager for, as a capture of it shows; what a
# machine or an address decides is not compared.
REQUEST = {
    "infiniband.deth.q_key": "0x0000000080010000",
    "infiniband.cm.req.serviceid": "0x0000000001061c06",
    "infiniband.cm.req.responderres": "0x01",
    "infiniband.cm.req.initdepth": "0x01",
    "infiniband.cm.req.transpsvctype": "0x00",
    "infiniband.cm.req.retrcount": "0x07",
    "infiniband.cm.req.rnrretrcount": "0x07",
    "infiniband.cm.req.maxcmretr": "0x0f",
    "infiniband.cm.req.pkey": "0xffff",
    "infiniband.cm.req.srq": "0x00",
    "infiniband.cm.req.prim_locallid": "65535",
    "infiniband.cm.req.prim_hoplim": "0x40",
    "infiniband.cm.req.prim_tfcclass": "0x00",
    "infiniband.cm.req.prim_subnetlocal": "0x00",
    "infiniband.cm.req.ip_cm.majv": "0x00",
    "infiniband.cm.req.ip_cm.ipv": "0x04",
}


def on_the_wire(bench):
    """Each message of a connection once, with fields as Linux fills them."""
    topology = bench.topology
    deadline = time.monotonic() + 30
    with captured(bench, offload=False) as path:
        server = bench.start(topology.server, ["rping", "-s", "-C", "2", "-V"], "server")
        bench.serving(topology.server, server, deadline)
        client = bench.start(topology.client, ["rping", "-c", "-a", topology.server_v4, "-C", "2",
                                               "-V"], "client")
        bench.finish(client, deadline)
        bench.finish(server, deadline)
    listed = shark(path, ["-Y", "infiniband.mad"])
    for message in MESSAGES:
        if listed.count("CM: " + message) != 1:
            raise Failure("not one %s:\n%s" % (message, listed))
    words = ["-Y", "infiniband.cm.req", "-T", "fields"]
    for name in REQUEST:
        words += ["-e", name]
    seen = dict(zip(REQUEST, shark(path, words).strip().split("\t")))
    if seen != REQUEST:
        raise Failure("the request has the fields %r, not %r" % (seen, REQUEST))
    if shark(path, ["-Y", "_ws.malformed && infiniband.mad"]).strip():
        raise Failure("tshark finds fault:\n" + listed)


UD_SEND_ONLY = 0x64
REQUEST_ATTRIBUTE = 0x0010
# Of the listener that never answers, and of nobody.
DEAF, NOBODY = 7300, 7301
FLOOD = 100000


def request(number, port, source, destination, malformed):
    """A REQ from queue pair 1 to queue pair 1, as a transport packet without its CRC."""
    identity = struct.pack(">I4xQQ8xI", number, 0x1060000 | port, 7, number % 0xFFFFF << 8 | 1)
    header = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, number, REQUEST_ATTRIBUTE, 0, 0)
    private = struct.pack(">BBH12x4s12x4s", 0, 0x40, 4711, source, destination)
    body = identity.ljust(140, b"\0") + private.ljust(92, b"\0")
    if malformed:
        # Another version, attribute or class, or half of it.
        header = bytearray(header)
        header[(0, 17, 1)[number % 3]] ^= 0x55
        body = body[:len(body) // 2] if number % 5 == 0 else body
    deth = struct.pack(">II", 0x80010000, 1)
    return roce.bth(UD_SEND_ONLY, 1, number & 0xFFFFFF) + deth + bytes(header) + body


def flood(topology):
    """Sends requests from one source, the most of them good, as fast as may be."""
    source, destination = (socket.inet_aton(address)
                           for address in (topology.ADDRESSES[1][0], topology.ADDRESSES[0][0]))

    def run():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The kernel leaves the identification at zero then, and sets DF.
        sender.setsockopt(socket.IPPROTO_IP, 10, 3)
        sender.connect((topology.ADDRESSES[0][0], roce.ROCE_PORT))
        port = sender.getsockname()[1]
        for number in range(1, FLOOD + 1):
            wanted = DEAF if number % 2 else NOBODY
            packet = request(number, wanted, source, destination, number % 8 == 0)
            ip = roce.ipv4_header(source, destination, 8 + len(packet) + 4)
            udp = roce.udp_header(port, len(packet) + 4)
            try:
                sender.send(packet + roce.icrc(ip, udp, packet))
            except OSError:
                # Whoever does not listen on that port says so.
                pass
        sender.close()

    topology.client.inside(run)


def resident_bytes(pid):
    """How much memory a process has."""
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flooded(bench):
    """Requests from one source, 100,000 of them: memory stays bounded, what is connected goes on, and
    whoever comes afterwards is served."""
    topology = bench.topology
    deadline = time.monotonic() + 120
    deaf = bench.start(topology.server, ["deaf"], "deaf")
    bench.serving(topology.server, deaf, deadline)
    server = bench.start(topology.server, ["rping", "-s", "-P", "-V"], "server")
    while ask_json(bench, topology.server, ["agent", "status"], "two")["agent"]["listeners"] < 2:
        time.sleep(0.05)
    talk = ["rping", "-c", "-a", topology.server_v4, "-V", "-C"]
    bench.finish(bench.start(topology.client, talk + ["10"], "before"), deadline)
    agent = agent_pid(bench, topology.server)
    pids = {"agent": agent, "listener": deaf.pid}
    before = {name: resident_bytes(pid) for name, pid in pids.items()}
    meanwhile = bench.start(topology.client, talk + ["20000"], "meanwhile")
    flood(topology)
    if not meanwhile.running():
        bench.finish(meanwhile, deadline)
    for name, pid in pids.items():
        grown = resident_bytes(pid) - before[name]
        if grown > MEMORY_MAX:
            raise Failure("the %s has grown by %d KiB" % (name, grown >> 10))
    after = bench.start(topology.client, talk + ["10"], "after")
    bench.finish(after, deadline)
    bench.finish(meanwhile, deadline)
    if agent_pid(bench, topology.server) != agent:
        raise Failure("the agent did not live through it")
    counted = ask_json(bench, topology.server, ["agent", "status"], "counted")["agent"]
    if counted["management_drops"] < FLOOD // 16:
        raise Failure("few drops are counted: %r" % counted)
    end(server, deadline)
    end(deaf, deadline)


# What 4096 requests that wait and their answers may take.
MEMORY_MAX = 32 << 20


def shark(path, words):
    """What tshark prints of a capture."""
    done = subprocess.run(["tshark", "-n", "-r", path] + words, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure("tshark: " + tail(done.stderr))
    return done.stdout


SCENARIOS = [
    Scenario("a server for ever and eight clients (rdma_cm)", "lo veth1500", many_clients),
    Scenario("a listener survives its agent (rdma_cm)", "lo veth1500", survives_agent),
    Scenario("each message of a connection once (rdma_cm)", "veth1500", on_the_wire),
    Scenario("a flood of requests (rdma_cm)", "veth1500", flooded),
]
