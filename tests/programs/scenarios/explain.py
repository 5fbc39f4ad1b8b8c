"""What failed is explained: which check, which packet, which limit; also when the program is gone."""
import os
import signal
import time

from ask import agent_pid, alive, ask_json
from harness.outcome import Failure
from . import Scenario

# Of what `provoke` provokes, what both sides of a connection say, and how it is worded.
PROVOKED = {
    "LocalKeyUnknown": "is of no region",
    "ReceiveTooShort": "bytes, message of",
    "RemoteKeyUnknown": "no region has that key",
    "RemoteNoAccess": "the region lacks REMOTE_",
    "RemoteOutOfBounds": "the region's",
    "QueuePairForbids": "qp_access_flags lack",
    "RemoteMemoryGone": "is gone",
    "PeerAccess": "NAKed PSN",
    "NoAnswer": "no ACK for PSN",
    "NoReceive": "RNR retries exhausted",
    "Flushed": "flushed after",
}


def failures(bench, space, label, count=64):
    """What `converb explain --last` tells."""
    return ask_json(bench, space, ["explain", "--last", str(count)], label)["failures"]


def collect(seen, some):
    """Adds failures to those seen, by what tells them apart."""
    for failure in some:
        seen[(failure["pid"], failure["time_ns"], failure["qpn"], failure["cause"])] = failure


def provoked(bench):
    """Every check that a program can fail is named, while it runs and after kill -9."""
    space = bench.topology.server
    # So that agents have somebody to be succeeded for.
    keeper = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "keeper")
    bench.listening(space, 18515, keeper, time.monotonic() + 15)
    program = bench.start(space, ["provoke", "old"], "provoke")
    seen, number, deadline = {}, 0, time.monotonic() + 60
    while program.running() and time.monotonic() < deadline:
        collect(seen, failures(bench, space, "living%d" % number))
        number += 1
    bench.finish(program, deadline)
    collect(seen, failures(bench, space, "dead"))
    for cause, words in PROVOKED.items():
        good = [failure for failure in seen.values()
                if failure["cause"] == cause and words in failure["explanation"]]
        if not good:
            raise Failure("nothing is explained as %s, with %r; there is %s"
                          % (cause, words, sorted({entry["cause"] for entry in seen.values()})))
        for failure in good:
            if failure["program"] != "provoke" or not failure["device"].startswith("roce_"):
                raise Failure("whose failure is this? %r" % failure)
            if not failure["advice"] or failure["qpn"] == 0:
                raise Failure("something is missing: %r" % failure)
    flush = next(entry for entry in seen.values() if entry["cause"] == "Flushed")
    culprits = [entry["vendor_err"] for entry in seen.values()]
    if flush["numbers"]["cause"] not in culprits:
        raise Failure("nobody knows what was flushed for: %r" % flush)

    second = bench.start(space, ["provoke", "newer"], "provoke-killed")
    deadline = time.monotonic() + 15
    while not any(entry["pid"] == second.popen.pid or entry["time_ns"] > newest(seen)
                  for entry in failures(bench, space, "second")):
        if time.monotonic() > deadline:
            raise Failure("nothing is told of the second program")
        time.sleep(0.05)
    os.kill(second.popen.pid, signal.SIGKILL)
    second.wait(time.monotonic() + 5)
    told = failures(bench, space, "killed")
    if not any(entry["time_ns"] > newest(seen) for entry in told):
        raise Failure("what failed in a killed program is forgotten: %r" % told)

    pid = agent_pid(bench, space, "before")
    # The agent has seen the death when the member is gone from its list.
    wait_for_members(bench, space, 1)
    told = failures(bench, space, "before-takeover")
    os.kill(pid, signal.SIGKILL)
    while alive(pid):
        time.sleep(0.01)
    after = agent_pid(bench, space, "after", patience=10)
    if after == pid:
        raise Failure("the killed agent still answers")
    if failures(bench, space, "after-takeover") != told:
        raise Failure("a successor tells something else")
    keeper.kill()


def newest(seen):
    """When the newest of them was."""
    return max(entry["time_ns"] for entry in seen.values())


def wait_for_members(bench, space, count):
    """Waits until the agent has so many members."""
    deadline = time.monotonic() + 10
    while True:
        members = ask_json(bench, space, ["agent", "status"], "members")["members"]
        if len(members) == count:
            return
        if time.monotonic() > deadline:
            raise Failure("there are %d members, not %d" % (len(members), count))
        time.sleep(0.05)


def vanished(bench):
    """A peer that is killed is told as no ACK, with address, PSN, timeout and retries."""
    topology = bench.topology
    deadline = time.monotonic() + 40
    command = ["ib_write_bw", "-D", "30", "-u", "15", "-p", "18620"]
    server = bench.start(topology.server, command, "server")
    bench.listening(topology.server, 18620, server, deadline)
    client = bench.start(topology.client, command + [topology.server_v4], "client")
    time.sleep(3)
    server.kill()
    status = client.wait(deadline)
    if status in (0, None):
        raise Failure("the client did not fail: %s" % status)
    told = failures(bench, topology.client, "last")
    first = [entry for entry in told if entry["cause"] == "NoAnswer"]
    if len(first) != 1:
        raise Failure("one failure should be NoAnswer: %r" % told)
    failure = first[0]
    wanted = {
        "status": 12, "status_name": "IBV_WC_RETRY_EXC_ERR", "operation": "WRITE",
        "program": "ib_write_bw", "peer_address": topology.server_v4, "vendor_err": 0x204,
        "numbers": {"retries": 7, "timeout_ns": 3 * (4096 << 15), "timeout": 15},
        "side": "requester", "has_completion": True,
    }
    for name, value in wanted.items():
        if failure[name] != value:
            raise Failure("%s is %r, not %r, in %r" % (name, failure[name], value, failure))
    words = ("no ACK for PSN 0x%x after 7 retries of %s ms (timeout 15) to %s"
             % (failure["psn"], 3 * (4096 << 15) // 10 ** 6, topology.server_v4))
    if failure["explanation"] != words:
        raise Failure("it says %r, not %r" % (failure["explanation"], words))
    flushed = [entry for entry in told if entry["cause"] == "Flushed"]
    if not flushed or any(entry["numbers"]["cause"] != 0x204 for entry in flushed):
        raise Failure("what was behind it should be flushed for it: %r" % told)
    process = bench.start(topology.client, ["converb", "explain", "--last"], "words")
    bench.finish(process, time.monotonic() + 15)
    if words not in process.output() or "UDP port 4791" not in process.output():
        raise Failure("for people it says %r" % process.output())


SCENARIOS = [
    Scenario("explain what provoke provokes", "lo", provoked),
    Scenario("explain a peer that vanished", "lo veth1500", vanished),
]
