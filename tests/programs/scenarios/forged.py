"""A peer that answers wrongly: a script that speaks RoCEv2 on a socket of its own."""
import os
import socket
import struct
import sys
import threading
import time

from harness.outcome import Failure
from . import Scenario

WIRE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                    "wire")
sys.path.insert(0, WIRE)
import roce  # noqa: E402

READ_REQUEST, READ_RESPONSE_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = 0x0C, 0x10, 0x11, 0x12
WRITE_ONLY, FETCH_ADD = 0x0A, 0x14
ACK, NAK_INVALID, NAK_ACCESS, NAK_OPERATION, NAK_OF_TOMORROW = 0x1F, 0x61, 0x62, 0x63, 0x6F


class Forger(threading.Thread):
    """Answers requests until its socket is closed."""

    def __init__(self, topology):
        super().__init__(daemon=True)
        self.ours, self.theirs = topology.ADDRESSES[1][0], topology.ADDRESSES[0][0]
        self.socket = topology.client.inside(self.open)
        self.failure = None

    def open(self):
        """The socket, inside the namespace."""
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The kernel leaves the identification at zero then, and sets DF.
        opened.setsockopt(socket.IPPROTO_IP, 10, 3)
        opened.bind((self.ours, roce.ROCE_PORT))
        opened.settimeout(0.2)
        return opened

    def run(self):
        while self.socket.fileno() >= 0:
            try:
                request = self.socket.recv(9000)
            except socket.timeout:
                continue
            except OSError:
                return
            self.answer(request)

    def answer(self, request):
        """What the opcode and the length ask for."""
        opcode = request[0]
        qpn, psn = (word & 0xFFFFFF for word in struct.unpack(">II", request[4:12]))
        length = struct.unpack(">I", request[24:28])[0] if opcode != FETCH_ADD else 8
        send = lambda *words, **more: self.send(qpn, psn, *words, **more)  # noqa: E731
        if opcode == FETCH_ADD:
            send(READ_RESPONSE_ONLY, b"r" * 8)
        elif length == 60:
            send(READ_RESPONSE_ONLY, b"r" * 60)
        elif length == 64:
            send(READ_RESPONSE_ONLY, b"x" * 60)
        elif length == 68:
            send(READ_RESPONSE_ONLY, b"x" * 72)
        elif length == 72:
            send(ATOMIC_ACKNOWLEDGE, b"x" * 8)
        elif length == 76:
            send(READ_RESPONSE_ONLY, b"x" * 76)
        elif length == 80:
            send(READ_RESPONSE_ONLY, b"x" * 80, ahead=5)
            send(READ_RESPONSE_ONLY, b"x" * 80, ahead=-5)
            send(READ_RESPONSE_ONLY, b"x" * 80, pkey=0x1234)
            send(READ_RESPONSE_ONLY, b"x" * 80, spoilt=True)
            send(READ_RESPONSE_ONLY, b"x" * 80, other=1)
            send(ACKNOWLEDGE, b"", ahead=100)
            send(READ_RESPONSE_ONLY, b"r" * 80)
        else:
            refusal = {84: NAK_OF_TOMORROW, 88: NAK_ACCESS, 92: NAK_OPERATION}[length]
            send(ACKNOWLEDGE, b"", syndrome=refusal)

    def send(self, qpn, psn, opcode, payload, syndrome=ACK, ahead=0, pkey=0xFFFF, spoilt=False,
             other=0):
        """One packet with an AETH."""
        head = roce.bth(opcode, qpn ^ other, psn + ahead & 0xFFFFFF, pkey=pkey)
        transport = head + struct.pack(">I", syndrome << 24 | 1) + payload
        size = len(transport) + roce.ICRC_BYTES
        ends = [socket.inet_aton(address) for address in (self.ours, self.theirs)]
        crc = roce.icrc(roce.ipv4_header(ends[0], ends[1], 8 + size),
                        roce.udp_header(roce.ROCE_PORT, size), transport)
        if spoilt:
            crc = bytes([crc[0] ^ 1]) + crc[1:]
        self.socket.sendto(transport + crc, (self.theirs, roce.ROCE_PORT))


def forged_answers(bench):
    """Answers that do not fit are bad responses; what is not ours to answer is dropped."""
    forger = Forger(bench.topology)
    forger.start()
    try:
        for way in ("old", "newer"):
            words = ["provoke", way, "forged", forger.ours]
            program = bench.start(bench.topology.server, words, "program-" + way)
            bench.finish(program, time.monotonic() + 60)
            if "all right" not in program.output():
                raise Failure("the program did not print its result")
    finally:
        forger.socket.close()
        forger.join()


SCENARIOS = [Scenario("a forged peer", "veth1500", forged_answers)]
