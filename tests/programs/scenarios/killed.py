"""kill -9 of a client, a server or the agent at random moments, again and again."""
import concurrent.futures
import os
import random
import re
import signal
import time

from ask import alive, ask_json
from harness.outcome import Failure
from . import Scenario

# `CONVERB_ROUNDS` says how many; `make test-all` plays many.
ROUNDS = int(os.environ.get("CONVERB_ROUNDS")
             or ("300" if "CONVERB_TEST_ALL" in os.environ else "40"))
AT_ONCE = 4
# perftest asks for a time-out of 67 ms and 7 retries: the end of its peer is known after
# 4 x (7 + 1) x 67 ms. What is added is for perftest's own steps on a machine under load.
PARTNER_ENDS_WITHIN = 4 * 8 * 0.067 + 12
# Those whose servers are passive, and whose clients always have work under way: who waits for a
# peer without sending (as ib_send_bw's server, or ib_write_lat's client between two WRITEs) learns
# nothing of its death, on a NIC neither.
COMMANDS = (["ib_write_bw", "-s", "4096"], ["ib_read_bw", "-s", "4096"], ["ib_atomic_bw"],
            ["ib_read_lat"])
# What a killed one leaves must be gone after so long: slots rest for a while.
SETTLES_WITHIN = 15


def commands_inside(space):
    """The command line of each process inside a namespace."""
    found = {}
    for pid in space.pids():
        try:
            with open("/proc/%d/cmdline" % pid) as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if alive(pid):
            found[pid] = " ".join(words).strip()
    return found


def agents(space):
    """The agents inside a namespace."""
    return [pid for pid, words in commands_inside(space).items() if " agent serve" in words]


def descriptors(pid):
    """How many descriptors of each kind a process has."""
    kinds = {}
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            target = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            continue
        kind = re.sub(r"[0-9]+", "N", target)
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def leftovers():
    """Files of ours where files can outlive programs; those of the tests themselves aside."""
    return {os.path.join(folder, name) for folder in ("/dev/shm", "/tmp")
            for name in os.listdir(folder)
            if "converb" in name and not re.match(r"converb-(row|stage|self)-", name)}


def settled(bench, label):
    """The agent's pid, once all slots but its own are free and rested."""
    space = bench.topology.server
    deadline = time.monotonic() + SETTLES_WITHIN
    number = 0
    while True:
        number += 1
        status = ask_json(bench, space, ["agent", "status"], "%s-%d" % (label, number))
        agent = status.get("agent") or {}
        if agent.get("pid") and not status.get("members") and agent["slots_used"] == 1 \
                and agent["slots_waiting"] == 0:
            return agent["pid"]
        if time.monotonic() > deadline:
            raise Failure("slots are not free again: %r" % status)
        time.sleep(0.3)


def kill(pid):
    """kill -9, as a person would; the victim may just have ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def play(bench, number, seed):
    """One round: a pair, a moment, a victim; and how its partner ends."""
    dice = random.Random("%s/%d" % (seed, number))
    command = list(dice.choice(COMMANDS))
    victim = dice.choice(("client", "server", "agent"))
    moment = dice.choice((0.05, 0.6, 3.0)) * dice.random()
    port = 19300 + number
    what = "round %d (seed %s): %s, %s killed after %.3f s: " % (
        number, seed, command[0], victim, moment)
    topology, space = bench.topology, bench.topology.server
    words = command + ["-p", str(port), "-D", "3" if victim == "agent" else "30"]
    deadline = time.monotonic() + 60
    server = bench.start(space, words, "server%d" % number)
    bench.listening(space, port, server, deadline)
    client = bench.start(space, words + [topology.server_v4], "client%d" % number)
    try:
        time.sleep(moment)
        if victim == "agent":
            for pid in agents(space):
                kill(pid)
            for process in (client, server):
                status = process.wait(deadline)
                if status != 0:
                    raise Failure(what + "the %s ended with status %s" % (process.label, status))
            return
        gone, partner = (client, server) if victim == "client" else (server, client)
        kill(gone.pid)
        if partner is server and space.listens(port):
            # It waits for its first client, and would for ever.
            return
        if partner.wait(time.monotonic() + PARTNER_ENDS_WITHIN) is None:
            raise Failure(what + "the %s hangs" % partner.label)
        if partner.popen.poll() < 0:
            raise Failure(what + "the %s ended by signal %d"
                          % (partner.label, -partner.popen.poll()))
    finally:
        for process in (client, server):
            process.kill()


def killed(bench):
    """Whoever is killed when: the partner ends, and nothing is left."""
    space = bench.topology.server
    seed = os.environ.get("CONVERB_SEED", "1")
    before_files = leftovers()
    # As many at once as later, so that the group of slots has its size.
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda n: bench.pair(["ib_write_bw", "-n", "1000", "-p", str(19200 + n)],
                                           port=19200 + n, name="warm%d-" % n, timeout=60),
                      range(AT_ONCE)))
    first = settled(bench, "status-before")
    before = descriptors(first)
    inside = set(commands_inside(space)) - {first}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        rounds = [pool.submit(play, bench, number, seed) for number in range(ROUNDS)]
        failures = [each.exception() for each in rounds if each.exception()]
    if failures:
        raise Failure("%d of %d rounds failed; the first: %s"
                      % (len(failures), ROUNDS, failures[0]))
    last = settled(bench, "status-after")
    after = descriptors(last)
    more = {kind: (before.get(kind, 0), count) for kind, count in after.items()
            if count > before.get(kind, 0)}
    if more:
        raise Failure("the agent has more descriptors, before and after: %r" % more)
    left = {pid: words for pid, words in commands_inside(space).items()
            if pid != last and pid not in inside}
    if left:
        raise Failure("processes are left: %r" % left)
    files = leftovers() - before_files
    if files:
        raise Failure("files are left: %r" % sorted(files))
    bench.pair(["ib_write_bw", "-n", "1000", "-p", "19250"], port=19250, name="last-", timeout=60)
    settled(bench, "status-last")


SCENARIOS = [Scenario("killed at random moments, %d rounds" % ROUNDS, "lo", killed)]
