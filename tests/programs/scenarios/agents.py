"""The agent dies, is stopped, or belongs to somebody else."""
import os
import signal
import time

from ask import agent_pid, alive
from harness.outcome import Failure
from . import Scenario

ROUNDS = 20


def kill_agent(pid):
    """kill -9, as a person would."""
    os.kill(pid, signal.SIGKILL)


def killed_during_transfer(bench):
    """The transfer goes on, a second pair starts at once, and another agent serves it."""
    topology = bench.topology
    deadline = time.monotonic() + 40
    command = ["ib_write_bw", "-D", "6"]
    server = bench.start(topology.server, command, "server")
    bench.listening(topology.server, 18515, server, deadline)
    client = bench.start(topology.client, command + [topology.server_v4], "client")
    time.sleep(2)
    before = {space: agent_pid(bench, space, "status-before-" + space.name, patience=10)
              for space in topology.namespaces}
    for pid in before.values():
        kill_agent(pid)
    bench.pair(["ib_write_bw", "-p", "18600"], port=18600, name="second-")
    for space, pid in before.items():
        after = agent_pid(bench, space, "status-after-" + space.name)
        if after == pid:
            raise Failure("the status still names the killed agent, pid %d" % pid)
    bench.finish(client, deadline)
    bench.finish(server, deadline)


def takeover_race(bench):
    """Two newcomers at a time find the successor of a killed agent, again and again."""
    topology = bench.topology
    space = topology.server
    deadline = time.monotonic() + 120
    command = ["ib_write_bw", "-D", "100", "-p", "18700"]
    server = bench.start(space, command, "member-server")
    bench.listening(space, 18700, server, deadline)
    client = bench.start(topology.client, command + [topology.server_v4], "member-client")
    # perftest waits a second before it opens its queue pair.
    time.sleep(3)
    last = None
    for number in range(ROUNDS):
        pid = agent_pid(bench, space, "status%d" % number, patience=10)
        if pid == last:
            raise Failure("round %d: the agent was killed and is still pid %d" % (number, pid))
        last = pid
        kill_agent(pid)
        servers = []
        for which in range(2):
            port = 18800 + which
            words = ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-p", str(port)]
            label = "round%d-%d-" % (number, which)
            servers.append((port, words, label, bench.start(space, words, label + "server")))
        clients = []
        for port, words, label, newcomer in servers:
            bench.listening(space, port, newcomer, deadline)
            clients.append(bench.start(topology.client, words + [topology.server_v4],
                                       label + "client"))
        for process in clients + [entry[3] for entry in servers]:
            bench.finish(process, deadline)
    for process in (client, server):
        if not process.running():
            raise Failure("the %s ended with status %s while agents were killed"
                          % (process.label, process.popen.poll()))
    # Only now: each ends when the other one does.
    for process in (client, server):
        process.kill()


def stop(bench):
    """`agent stop` refuses while there are members and lists them, unless forced."""
    topology = bench.topology
    space = topology.server
    deadline = time.monotonic() + 30
    member = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "member")
    bench.listening(space, 18515, member, deadline)
    pid = agent_pid(bench, space)
    refused = bench.start(space, ["converb", "agent", "stop"], "stop")
    if refused.wait(deadline) in (0, None):
        raise Failure("`converb agent stop` did not refuse")
    text = refused.output() + refused.errors()
    if "ibv_rc_pingpong" not in text or str(member.pid) not in text:
        raise Failure("`converb agent stop` does not list the member, pid %d" % member.pid)
    bench.finish(bench.start(space, ["converb", "agent", "stop", "--force"], "stop-force"),
                 deadline)
    if alive(pid):
        raise Failure("the agent, pid %d, still runs" % pid)
    # The member goes on: its peer finds it.
    client = bench.start(topology.client, ["ibv_rc_pingpong", "-g", "0", topology.server_v4],
                         "client")
    bench.finish(client, deadline)
    bench.finish(member, deadline)
    last = bench.start(space, ["converb", "agent", "stop"], "stop-last")
    bench.finish(last, deadline)


def holds_no_output(bench):
    """A shell that collects a program's output does not wait for the agent."""
    begin = time.monotonic()
    # The shell is not under `converb run`, and knows the command by its path.
    script = "out=$(%s run ibv_rc_pingpong -g 0 -p 1 no.such.host 2>&1); echo \"got: $out\"" \
        % bench.stage.converb
    process = bench.start(bench.topology.server, ["sh", "-c", script], "shell", bare=True)
    bench.finish(process, begin + 10)


def descriptors_still_pass(bench):
    """With an agent up, another program of the same user, soft limit 1024, passes descriptors."""
    space = bench.topology.server
    deadline = time.monotonic() + 30
    member = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "member")
    bench.listening(space, 18515, member, deadline)
    script = ("import os, resource, socket\n"
              "resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))\n"
              "a, b = socket.socketpair()\n"
              "for _ in range(8):\n"
              "    socket.send_fds(a, [b'x'], [0] * 100)\n"
              "print('passed')\n")
    process = bench.start(space, ["/usr/bin/python3", "-c", script], "passer", bare=True)
    bench.finish(process, deadline)


def idle_exit(bench):
    """The agent exits by itself, and the next program starts another."""
    space = bench.topology.server
    deadline = time.monotonic() + 30
    short = {"CONVERB_AGENT_IDLE_SECONDS": "1"}
    member = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "member", environment=short)
    bench.listening(space, 18515, member, deadline)
    pid = agent_pid(bench, space)
    member.kill()
    while alive(pid):
        if time.monotonic() > deadline:
            raise Failure("the agent, pid %d, did not exit when idle" % pid)
        time.sleep(0.1)
    bench.pair(["ibv_rc_pingpong", "-g", "0"])


SCENARIOS = [
    Scenario("agent killed during a transfer", "lo veth1500", killed_during_transfer),
    Scenario("20 agents killed, two newcomers racing", "lo", takeover_race),
    Scenario("agent stop", "lo", stop),
    Scenario("the agent holds no output", "lo", holds_no_output),
    Scenario("descriptors still pass", "lo", descriptors_still_pass),
    Scenario("the agent exits when idle", "lo", idle_exit),
]
