"""Connections by address that take more than a server and a client."""
import os
import signal
import subprocess
import time

from ask import agent_pid
from harness.outcome import Failure, tail
from pair import end
from . import Scenario
from .packets import capture_words

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
    for space in topology.namespaces:
        space.call("ethtool", "-K", "veth0", "gso", "off", "gro", "off")
    path = os.path.join(bench.folder, "connection.pcap")
    log = os.path.join(bench.folder, "tcpdump.log")
    with open(log, "w") as file:
        dump = subprocess.Popen(["ip", "netns", "exec", topology.client.name]
                                + capture_words(path, False),
                                stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 30
        while "listening on" not in open(log).read():
            if dump.poll() is not None or time.monotonic() > deadline:
                raise Failure("tcpdump did not start: " + open(log).read())
            time.sleep(0.05)
        server = bench.start(topology.server, ["rping", "-s", "-C", "2", "-V"], "server")
        bench.serving(topology.server, server, deadline)
        client = bench.start(topology.client, ["rping", "-c", "-a", topology.server_v4, "-C", "2",
                                               "-V"], "client")
        bench.finish(client, deadline)
        bench.finish(server, deadline)
        time.sleep(0.5)
    finally:
        dump.terminate()
        dump.wait()
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
]
