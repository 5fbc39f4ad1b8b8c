"""Faults on purpose, and what is written down of packets."""
import json
import os
import re
import subprocess
import sys
import time

from ask import counters
from harness.outcome import Failure, tail
from . import Scenario
from .packets import WIRE

sys.path.insert(0, WIRE)
import roce  # noqa: E402

FAULTS = "drop=1%,reorder=1%,dup=0.5%,corrupt=0.1%,seed=1"


def counted(bench):
    """Faults are counted, and what they cost is mended by sending again."""
    device = "roce_" + bench.topology.netdev
    bench.pair(["ib_write_bw", "-n", "2000", "-s", "65536"], timeout=60, run=["--fault", FAULTS])
    for space in (bench.topology.client, bench.topology.server):
        found = counters(bench, space, device)
        for name in ("fault_dropped", "fault_duplicated", "fault_reordered", "fault_corrupted",
                     "dropped_bad_icrc"):
            if not found[name]:
                raise Failure("%s is 0: %s" % (name, json.dumps(found)))
    sender = counters(bench, bench.topology.client, device)
    if not sender["retransmitted_packets"]:
        raise Failure("nothing was sent again: " + json.dumps(sender))


def all_lost(bench):
    """A network that loses everything: the program is told so, and ends."""
    topology = bench.topology
    run = ["--fault", "drop=100%"]
    deadline = time.monotonic() + 60
    server = bench.start(topology.server, ["ib_write_bw"], "server", run=run)
    bench.listening(topology.server, 18515, server, deadline)
    client = bench.start(topology.client, ["ib_write_bw", topology.server_v4], "client", run=run)
    begin = time.monotonic()
    status = client.wait(deadline)
    if status in (0, None):
        raise Failure("the client did not fail: status %s" % status)
    # perftest asks for 134 ms at most and 7 retries: 4 times 8 times that are 4.3 s.
    taken = time.monotonic() - begin
    if taken > 15:
        raise Failure("the client was told after %.1f s" % taken)
    text = client.output() + client.errors()
    if not re.search(r"status 12\b|Failed status 12", text):
        raise Failure("the client did not see status 12:\n" + tail(text))
    if server.wait(deadline) in (0, None):
        raise Failure("the server did not fail")


def wrong_words(bench):
    """What is no fault is refused before the program runs."""
    for words, reason in ((["--fault", "drop=1"], "percent"), (["--fault", "lose=1%"], "lose=1%"),
                          (["--capture", "/nonexistent/x.pcapng"], "/nonexistent/x.pcapng"),
                          (["--capture", "/dev/full"], "/dev/full")):
        name = "program-" + words[1][-8:].replace("/", "-")
        process = bench.start(bench.topology.server, ["true"], name, run=words)
        if process.wait(time.monotonic() + 15) in (0, None):
            raise Failure("%r was taken" % words)
        if reason not in process.errors():
            raise Failure("%r was refused without its reason:\n%s" % (words, process.errors()))


def tshark(path, *words):
    """What tshark prints of a capture."""
    done = subprocess.run(["tshark", "-n", "-r", path] + list(words), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure("tshark cannot read %s:\n%s" % (path, done.stderr))
    return done.stdout.splitlines()


def written_down(bench):
    """What a program's capture holds is right for tshark: operations, CRCs, both directions."""
    folder = bench.folder
    for command, needed in (
            ("ib_write_bw -n 200 -s 10000", {6, 7, 8, 17}),
            ("ib_atomic_bw -n 200", {18, 20}),
            ("ib_send_bw -c UD -n 200 -s 1000", {100})):
        path = os.path.join(folder, "client-%s.pcapng" % command.split()[0])
        topology = bench.topology
        deadline = time.monotonic() + 30
        words = command.split()
        server = bench.start(topology.server, words, words[0] + "-server")
        bench.listening(topology.server, 18515, server, deadline)
        client = bench.start(topology.client, words + [topology.server_v4], words[0] + "-client",
                             run=["--capture", path])
        bench.finish(client, deadline)
        bench.finish(server, deadline)
        if tshark(path, "-Y", "_ws.malformed || udp.length.bad || ip.checksum.status == 0"):
            raise Failure("%s: tshark finds fault with its capture" % command)
        opcodes = {int(line, 0) for line in
                   tshark(path, "-Y", "infiniband.bth", "-T", "fields", "-e",
                          "infiniband.bth.opcode") if line}
        if not needed <= opcodes:
            raise Failure("%s: opcodes %r are not all of %r" % (command, opcodes, needed))
        columns = "\n".join(tshark(path))
        if "RRoCE" not in columns:
            raise Failure("%s: tshark sees no RRoCE:\n%s" % (command, tail(columns)))
        comments = tshark(path, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
        if comments:
            raise Failure("%s: nothing was dropped, and yet: %r" % (command, comments[:3]))
        plain = os.path.join(folder, "plain.pcap")
        subprocess.run(["tshark", "-n", "-r", path, "-F", "pcap", "-w", plain], check=True,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        checked = subprocess.run([sys.executable, os.path.join(WIRE, "check_icrc.py"), plain],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if checked.returncode:
            raise Failure("%s: %s" % (command, checked.stdout))


def drops_written_down(bench):
    """A dropped packet is in the capture, with the reason."""
    path = os.path.join(bench.folder, "dropped.pcapng")
    bench.pair(["ib_write_bw", "-n", "500"], timeout=60,
               run=["--fault", "drop=5%,corrupt=5%,seed=3", "--capture", path])
    comments = tshark(path, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment")
    for words in ("dropped on purpose", "damaged on purpose"):
        if not any(words in line for line in comments):
            raise Failure("no packet has the comment %r" % words)


def limited_file(bench):
    """Where files may not grow, the capture ends with a word about it, and the program does not."""
    path = os.path.join(bench.folder, "limited.pcapng")
    topology = bench.topology
    deadline = time.monotonic() + 30
    # In blocks of 512 bytes, as POSIX has it.
    limited = ["sh", "-c", "ulimit -f 100; exec \"$@\"", "sh"]
    command = ["ib_write_bw", "-n", "200", "-s", "10000"]
    server = bench.start(topology.server, command, "server")
    bench.listening(topology.server, 18515, server, deadline)
    client = bench.start(topology.client, limited + command + [topology.server_v4], "client",
                         run=["--capture", path])
    bench.finish(client, deadline)
    bench.finish(server, deadline)
    lines = [line for line in client.errors().splitlines() if line.startswith("converb: ")]
    if len(lines) != 1 or "the capture to %s ends here: File too large" % path not in lines[0]:
        raise Failure("the end of the capture was told so:\n" + client.errors())
    if os.path.getsize(path) > 100 * 512:
        raise Failure("the capture has %d bytes" % os.path.getsize(path))
    # Shared memory counts as files, too.
    process = bench.start(topology.server, ["sh", "-c", "ulimit -f 1; exec ibv_rc_pingpong"], "tiny")
    if process.wait(deadline) != 1 or "ulimit -f" not in process.errors():
        raise Failure("without any files it ended with %r:\n%s"
                      % (process.wait(deadline), process.errors()))


SCENARIOS = [
    Scenario("faults are counted and mended", "lo veth1500", counted),
    Scenario("everything is lost", "lo veth1500", all_lost),
    Scenario("no faults and no file", "lo", wrong_words),
    Scenario("what a capture holds", "lo veth1500", written_down),
    Scenario("drops in a capture", "veth1500", drops_written_down),
    Scenario("a capture that may not grow", "lo", limited_file),
]
