"""Programs of two users at once in one network namespace: the agent relays what arrives for those
that are not its own user's."""
import os
import shutil
import time

from ask import agent_pid, alive, ask_json
from harness.outcome import Failure
from pair import check_done
from . import Scenario
from .agents import kill_agent

OWNER, OTHER = 1000, 65534
BANDWIDTH, LATENCY = ["ib_write_bw", "-D", "3"], ["ib_send_lat", "-n", "2000"]
TOLD = "relays what this program receives, and can read it"


class Keepers:
    """Servers of the owner's that nobody connects to, so that each namespace's agent is the
    owner's, whoever else comes first."""

    def __init__(self, bench, deadline):
        self.processes = []
        for space in bench.topology.namespaces:
            words = ["ibv_rc_pingpong", "-g", "0", "-p", "18900"]
            process = bench.start(space, words, "keeper-" + space.name, uid=OWNER)
            bench.listening(space, 18900, process, deadline)
            self.processes.append(process)

    def running(self):
        """Whether all are there."""
        return all(process.running() for process in self.processes)

    def kill(self):
        """Ends all."""
        for process in self.processes:
            process.kill()


class Pair:
    """A server and a client, each of a user."""

    def __init__(self, bench, words, port, users, deadline):
        self.bench, self.users, self.deadline = bench, users, deadline
        self.words = words + ["-p", str(port)]
        self.label = "%s-%d-%d-" % (words[0], port, users[0])
        space = bench.topology.server
        self.server = bench.start(space, self.words, self.label + "server", uid=users[0])
        bench.listening(space, port, self.server, deadline)

    def connect(self):
        """Starts the client."""
        topology = self.bench.topology
        self.client = self.bench.start(topology.client, self.words + [topology.server_v4],
                                       self.label + "client", uid=self.users[1])

    def finish(self):
        """Both have to end well, and those that are relayed to have said so once."""
        for process, user in ((self.client, self.users[1]), (self.server, self.users[0])):
            self.bench.finish(process, self.deadline)
            told = process.errors().count(TOLD)
            if told != (user != OWNER):
                raise Failure("the %s of user %d said %d times that it is relayed: %r"
                              % (process.label, user, told, process.errors()))
        check_done(self.client)


def start_pairs(bench, deadline, bandwidth=None):
    """Pairs of both users, and across them, all at once."""
    users = [(OWNER, OWNER), (OTHER, OTHER), (OTHER, OWNER), (OWNER, OTHER)]
    pairs = []
    for number, both in enumerate(users):
        for offset, words in ((0, bandwidth or BANDWIDTH), (1, LATENCY)):
            pairs.append(Pair(bench, words, 18600 + 2 * number + offset, both, deadline))
    for pair in pairs:
        pair.connect()
    return pairs


def members_by_user(bench, label):
    """The members as `converb agent status` lists them, by their user."""
    listed = ask_json(bench, bench.topology.server, ["agent", "status"], label)
    found = {}
    for member in listed["members"]:
        found.setdefault(member["uid"], []).append(member)
    return found


def both_at_once(bench):
    """All pairs end well; the status tells who is relayed, also to the one who is."""
    deadline = time.monotonic() + 90
    Keepers(bench, deadline)
    pairs = start_pairs(bench, deadline)
    time.sleep(1)
    found = members_by_user(bench, "status")
    if not found.get(OWNER) or not found.get(OTHER):
        raise Failure("the status does not list members of both users: %r" % found)
    for user, members in found.items():
        if any(member["relayed"] != (user != OWNER) for member in members):
            raise Failure("the status does not tell who is relayed: %r" % found)
    for pair in pairs:
        pair.finish()


def killed(bench):
    """The agent is killed: the owner's members start a successor, which relays to the same
    members of the other user, whose queue pairs live on."""
    deadline = time.monotonic() + 120
    keepers = Keepers(bench, deadline)
    pairs = start_pairs(bench, deadline, ["ib_write_bw", "-D", "8"])
    time.sleep(4)
    for number in range(2):
        before = agent_pid(bench, bench.topology.server, "before%d" % number, patience=10)
        kill_agent(before)
        time.sleep(1.5)
        after = agent_pid(bench, bench.topology.server, "after%d" % number, patience=10)
        if after == before:
            raise Failure("the status still names the killed agent, pid %d" % before)
    for pair in pairs:
        pair.finish()
    if not keepers.running():
        raise Failure("the owner's member did not outlive the agent")


def group_ends(bench):
    """Without a member of the owner's the group ends with its agent: the other user's queue pairs
    fail by their retries, and programs that start then have an agent of their own."""
    space = bench.topology.server
    deadline = time.monotonic() + 90
    keepers = Keepers(bench, deadline)
    # Both ends are relayed; a short time-out, that the end is soon.
    words = ["ib_write_bw", "-D", "60", "-u", "12"]
    pair = Pair(bench, words, 18600, (OTHER, OTHER), deadline)
    pair.connect()
    time.sleep(4)
    before = agent_pid(bench, space, "before", patience=10)
    keepers.kill()
    kill_agent(before)
    if pair.client.wait(deadline) in (0, None):
        raise Failure("the client's queue pair outlived its group")
    text = pair.client.output() + pair.client.errors()
    if "12" not in text and "transport retry" not in text.lower():
        raise Failure("the client did not end for its retries: %r" % text[-500:])
    pair.server.kill()
    next_pair = Pair(bench, ["ib_write_bw", "-D", "1"], 18610, (OTHER, OTHER), deadline)
    next_pair.connect()
    bench.finish(next_pair.client, deadline)
    bench.finish(next_pair.server, deadline)


def refused_requests(bench):
    """Another user neither stops the agent nor reads what failed in the owner's programs."""
    space = bench.topology.server
    deadline = time.monotonic() + 30
    Keepers(bench, deadline)
    pid = agent_pid(bench, space)
    for words in (["agent", "stop"], ["agent", "stop", "--force"], ["explain", "--last"]):
        asking = bench.start(space, ["converb"] + words, "-".join(words), uid=OTHER)
        if asking.wait(deadline) in (0, None):
            raise Failure("`converb %s` was not refused" % " ".join(words))
        if "another user (uid 1000" not in asking.errors():
            raise Failure("`converb %s` does not say whose the agent is: %r"
                          % (" ".join(words), asking.errors()))
    if not alive(pid):
        raise Failure("another user has ended the agent")


def silent_squatter(bench):
    """Another user's process holds the agent's name and says nothing: an error in bounded time."""
    space = bench.topology.server
    deadline = time.monotonic() + 30
    script = ("import socket, time\n"
              "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              "s.bind(b'\\0converb/agent/1'); s.listen()\n"
              "print('holds', flush=True); time.sleep(60)\n")
    squatter = bench.start(space, ["/usr/bin/python3", "-c", script], "squatter", bare=True,
                           uid=OWNER)
    while "holds" not in squatter.output():
        if time.monotonic() > deadline:
            raise Failure("the name cannot be held")
        time.sleep(0.05)
    begin = time.monotonic()
    for words in (["ibv_rc_pingpong", "-g", "0"], ["converb", "agent", "status"]):
        asking = bench.start(space, words, words[-1], uid=OTHER)
        if asking.wait(begin + 20) in (0, None):
            raise Failure("%s did not fail in time" % words)
        if "uid 1000, pid %d" % squatter.pid not in asking.errors():
            raise Failure("it was not told who holds the name: %r" % asking.errors())


def attack(bench):
    """What another user can try by itself: none of it takes or removes the owner's packets."""
    space = bench.topology.server
    deadline = time.monotonic() + 90
    Keepers(bench, deadline)
    pairs = [Pair(bench, ["ib_write_bw", "-D", "6"], 18600, (OWNER, OWNER), deadline),
             Pair(bench, ["ib_send_lat", "-D", "6"], 18601, (OWNER, OWNER), deadline)]
    for pair in pairs:
        pair.connect()
    time.sleep(2)
    slots = [slot for member in members_by_user(bench, "status")[OWNER]
             for slot in member["slots"]]
    script = os.path.join(bench.folder, "intruder.py")
    shutil.copy(os.path.join(os.path.dirname(os.path.dirname(__file__)), "intruder.py"), script)
    os.chmod(script, 0o644)
    words = ["/usr/bin/python3", script] + [str(slot) for slot in slots]
    intruder = bench.start(space, words, "intruder", bare=True, uid=OTHER)
    if intruder.wait(deadline) != 0:
        raise Failure("the intruder got what it should not: %s%s"
                      % (intruder.output(), intruder.errors()))
    for pair in pairs:
        pair.finish()


SCENARIOS = [
    Scenario("two users at once", "lo veth1500", both_at_once, two_users=True),
    Scenario("two users, their agent killed", "lo", killed, two_users=True),
    Scenario("two users, the group ends", "lo", group_ends, two_users=True),
    Scenario("another user's requests", "lo", refused_requests, two_users=True),
    Scenario("a silent squatter", "lo", silent_squatter, two_users=True),
    Scenario("another user's attacks", "lo", attack, two_users=True),
]
