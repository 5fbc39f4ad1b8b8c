#!/usr/bin/env python3
"""Writes the RoCEv2 packets that cross an interface into a pcap file until it is told to end
(SIGTERM), then says how many the kernel dropped: capture.py INTERFACE FILE FRAME_BYTES, where a
frame, a power of two, must hold a packet and some.

For where tcpdump does not start: inside a user namespace it insists on changing its groups, which
is forbidden there.
"""
import mmap
import select
import signal
import socket
import struct
import sys
import time

PORT = 4791
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_RX_RING = 5
PACKET_STATISTICS = 6
PACKET_VERSION = 10
TPACKET_V2 = 1
TP_STATUS_KERNEL, TP_STATUS_USER = 0, 1
# A ring in shared memory, for an ordinary user's receive buffer is small.
RING_BYTES = 128 << 20
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17


def is_ours(frame):
    """Whether a frame is a UDP datagram to or from the port."""
    if len(frame) < 14:
        return False
    kind, = struct.unpack_from("!H", frame, 12)
    if kind == IPV4 and len(frame) >= 34:
        protocol, start = frame[23], 14 + (frame[14] & 15) * 4
    elif kind == IPV6 and len(frame) >= 54:
        protocol, start = frame[20], 54
    else:
        return False
    if protocol != UDP or len(frame) < start + 8:
        return False
    return PORT in struct.unpack_from("!HH", frame, start)


def open_ring(interface, frame_bytes):
    """A socket that sees all packets of an interface, and its ring."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    frames = RING_BYTES // frame_bytes
    request = struct.pack("IIII", frame_bytes, frames, frame_bytes, frames)
    tap.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
    ring = mmap.mmap(tap.fileno(), RING_BYTES)
    tap.bind((interface, ETH_P_ALL))
    return tap, ring


def main():
    interface, path, frame_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    tap, ring = open_ring(interface, frame_bytes)
    captured = turn = 0
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        file.flush()
        print("listening on %s" % interface, file=sys.stderr, flush=True)
        while True:
            start = turn * frame_bytes % RING_BYTES
            status, length, kept, mac = struct.unpack_from("IIIH", ring, start)
            if not status & TP_STATUS_USER:
                if ended:
                    break
                file.flush()
                select.select([tap], [], [], 0.1)
                continue
            frame = ring[start + mac:start + mac + kept]
            struct.pack_into("I", ring, start, TP_STATUS_KERNEL)
            turn += 1
            if is_ours(frame):
                now = time.time()
                file.write(struct.pack("<IIII", int(now), int(now % 1 * 1e6), kept, length) + frame)
                captured += 1
    dropped = struct.unpack("II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    print("%d packets captured\n%d packets dropped by kernel" % (captured, dropped),
          file=sys.stderr)


if __name__ == "__main__":
    main()
