"""What is on the wire, seen by tools that share no code with us, and what must not get in."""
import contextlib
import os
import re
import socket
import subprocess
import sys
import time

from ask import counters, drops
from harness import namespace
from harness.outcome import Failure, tail
from . import Scenario

WIRE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                    "wire")
sys.path.insert(0, WIRE)
import roce  # noqa: E402

PAYLOAD_BYTES = 100 * 65536
# The largest path MTU: a packet carries no more.
LARGEST_PAYLOAD = 4096


def capture_words(path, offload):
    """The program that captures: tcpdump, or ours where tcpdump cannot change its user."""
    if namespace.is_real_root():
        return ["tcpdump", "-i", "veth0", "-Z", "root", "--immediate-mode", "-B", "65536",
                "-s", "0", "-w", path, "udp", "port", "4791"]
    frame = 128 << 10 if offload else 16 << 10
    return [sys.executable, os.path.join(WIRE, "capture.py"), "veth0", path, str(frame)]


@contextlib.contextmanager
def captured(bench, offload):
    """What runs meanwhile runs under tcpdump; gives the path of the capture."""
    topology = bench.topology
    for space in topology.namespaces:
        words = [word for name in ("tso", "gso", "gro", "tx-udp-segmentation")
                 for word in (name, "on" if offload else "off")]
        space.call("ethtool", "-K", "veth0", *words)
    path = os.path.join(bench.folder, "wire.pcap")
    log = os.path.join(bench.folder, "tcpdump.log")
    with open(log, "w") as file:
        dump = subprocess.Popen(["ip", "netns", "exec", topology.client.name]
                                + capture_words(path, offload),
                                stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 10
        while "listening on" not in open(log).read():
            if dump.poll() is not None or time.monotonic() > deadline:
                raise Failure("tcpdump did not start: " + open(log).read())
            time.sleep(0.05)
        yield path
        # The last packets are in the kernel's ring until tcpdump has read them.
        time.sleep(0.5)
    finally:
        dump.terminate()
        dump.wait()
    dropped = re.search(r"^(\d+) packets dropped by kernel", open(log).read(), re.M)
    if not dropped or int(dropped.group(1)):
        raise Failure("the capture is not whole: " + open(log).read())


def capture(bench, offload, command=("ib_write_bw", "-n", "100", "-s", "65536")):
    """Runs a program and its peer under tcpdump; the path of the capture."""
    with captured(bench, offload) as path:
        bench.pair(list(command), name=" ".join(command).replace(" ", "_") + "-")
    return path


def check(path):
    """Every ICRC is right and the payload is all there."""
    done = subprocess.run([sys.executable, os.path.join(WIRE, "check_icrc.py"),
                           "--min-write-bytes", str(PAYLOAD_BYTES), path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failure(done.stdout)


def segmented(bench):
    """Packet by packet: right CRCs, all of the payload, nothing malformed for tshark."""
    path = capture(bench, offload=False)
    check(path)
    shark = subprocess.run(["tshark", "-n", "-r", path, "-Y", "_ws.malformed"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    lines = [line for line in shark.stdout.splitlines() if "as user" not in line]
    if shark.returncode or lines:
        raise Failure("tshark finds fault:\n" + tail(shark.stdout))
    shark = subprocess.run(["tshark", "-n", "-r", path, "-Y", "infiniband.bth", "-T", "fields",
                            "-e", "frame.number"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if len(shark.stdout.split()) * LARGEST_PAYLOAD < PAYLOAD_BYTES:
        raise Failure("tshark sees only %d RoCEv2 packets" % len(shark.stdout.split()))


def whole(bench):
    """Super-packets, as they cross when nothing has to cut them."""
    check(capture(bench, offload=True))


def traffic_class(ip):
    """The byte of an IP header that holds DSCP and ECN."""
    return ip[1] if ip[0] >> 4 == 4 else (ip[0] & 15) << 4 | ip[1] >> 4


def service_marks(bench):
    """Each packet, whoever sends it and whatever it is, carries the DSCP and ECN asked for."""
    # DSCP 24, without and with "capable of ECN".
    for command, opcodes in (
            ("ib_send_bw --tclass=96 -n 200 -s 512", {0x04, 0x11}),
            ("ib_write_bw --tclass=96 -n 200 -s 4096", {0x06, 0x07, 0x08, 0x11}),
            ("ib_read_bw --tclass=98 -n 200 -s 2000", {0x0C, 0x0D, 0x0F}),
            ("ib_send_bw -c UC --tclass=96 -n 2000 -s 512", {0x24}),
            ("ib_send_bw -c UD --tclass=98 -n 2000 -s 512", {0x64}),
            ("ib_send_bw --ipv6 --tclass=98 -n 200 -s 512", {0x04, 0x11})):
        path = capture(bench, False, command.split())
        wanted = 98 if "98" in command else 96
        seen, ways = {}, set()
        for link_type, frame in roce.frames(path):
            packet = roce.parse(link_type, frame)
            if packet is not None:
                key = packet.opcode, traffic_class(packet.ip)
                seen[key] = seen.get(key, 0) + 1
                ways.add(packet.ip[-4:])
        strays = {key: count for key, count in seen.items() if key[1] != wanted}
        if strays:
            raise Failure("%s: packets (opcode, class): %r, where the class should be %d"
                          % (command, strays, wanted))
        missing = opcodes - {opcode for opcode, _ in seen}
        if missing or len(ways) != 2:
            raise Failure("%s: no packets of %r both ways: %r" % (command, missing, seen))


def flipped_bits(bench):
    """A packet with any one bit flipped is dropped and counted."""
    topology = bench.topology
    space = topology.server
    deadline = time.monotonic() + 60
    program = bench.start(space, ["stdbuf", "-o0", "ibv_rc_pingpong", "-g", "0"], "program")
    bench.listening(space, 18515, program, deadline)
    # The queue pair exists by now, and the number is printed once the output is flushed.
    found = re.search(r"QPN 0x([0-9a-f]+)", program.output())
    if not found:
        raise Failure("the program printed no QPN")
    qpn = int(found.group(1), 16)
    device = "roce_" + topology.netdev
    for family in (4, 6):
        before = drops(bench, space, device, "before-v%d" % family)
        sent = topology.client.inside(lambda: send_flipped(topology, family, qpn))
        number = 0
        while drops(bench, space, device, "after-v%d-%d" % (family, number)) - before < sent:
            number += 1
            if time.monotonic() > deadline or number > 25:
                break
            time.sleep(0.2)
        # Nothing is counted twice, either.
        time.sleep(0.3)
        grown = drops(bench, space, device, "settled-v%d" % family) - before
        if grown != sent:
            raise Failure("IPv%d: %d flipped packets were sent, and the drops grew by %d: %s"
                          % (family, sent, grown, counters(bench, space, device, "at-last")))
    if not program.running():
        raise Failure("the program did not survive")
    client = bench.start(topology.client, ["ibv_rc_pingpong", "-g", "0", topology.server_v4],
                         "client")
    bench.finish(client, deadline)
    bench.finish(program, deadline)


def send_flipped(topology, family, qpn):
    """Sends a SEND ONLY with every bit of BTH, payload and ICRC flipped in turn, the masked byte
    of the BTH left out; how many packets that were."""
    transport = roce.bth(0x04, qpn, 0x123456, ack_request=True) + b"sixteen bytes..."
    if family == 4:
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The kernel leaves the identification at zero then, and sets DF.
        sender.setsockopt(socket.IPPROTO_IP, 10, 3)
        target = (topology.server_v4, roce.ROCE_PORT)
        source = "127.0.0.1" if topology.kind == "lo" else "10.99.0.2"
    else:
        sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        target = (topology.server_v6, roce.ROCE_PORT)
        source = "::1" if topology.kind == "lo" else "fd99::2"
    sender.bind((source, 0))
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    ends = [socket.inet_pton(kind, address) for address in (source, target[0])]
    header = roce.ipv4_header if family == 4 else roce.ipv6_header
    size = len(transport) + roce.ICRC_BYTES
    packet = transport + roce.icrc(header(ends[0], ends[1], 8 + size),
                                   roce.udp_header(sender.getsockname()[1], size), transport)
    sent = 0
    for bit in range(8 * len(packet)):
        if bit // 8 == 4:
            continue
        broken = bytearray(packet)
        broken[bit // 8] ^= 1 << bit % 8
        sender.sendto(bytes(broken), target)
        sent += 1
        # The receive buffer is small, and the receiver may be asleep.
        if sent % 16 == 0:
            time.sleep(0.002)
    # Too short to be a packet: dropped and counted as well.
    for length in (0, 1, 4, 11, 15):
        sender.sendto(packet[:length], target)
        sent += 1
    sender.close()
    return sent


SCENARIOS = [
    Scenario("tcpdump, packet by packet", "veth1500 veth9000", segmented),
    Scenario("tcpdump, super-packets", "veth1500 veth9000", whole),
    Scenario("DSCP and ECN of every packet", "veth1500", service_marks),
    Scenario("flipped bits", "lo veth1500", flipped_bits),
]
