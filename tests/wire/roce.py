"""RoCEv2 packets by the book, in Python, sharing no code with Converb.

The invariant CRC is that of the InfiniBand specification's RoCEv2 annex: CRC-32 over eight bytes
of ones (a masked local route header), the IP header with what routers change set to ones (IPv4:
type of service, time to live, checksum; IPv6: traffic class, flow label, hop limit), the UDP
header with its checksum set to ones, the base transport header with its byte 4 set to ones, and
the rest up to the CRC itself, which follows least significant byte first.
"""
import struct
import zlib

ROCE_PORT = 4791
# Opcodes of reliable connections that carry RDMA WRITE payload, and which of them have a RETH.
WRITE_WITH_RETH = {0x06, 0x0A, 0x0B}
WRITE = WRITE_WITH_RETH | {0x07, 0x08, 0x09}
WITH_IMMEDIATE = {0x09, 0x0B}
BTH_BYTES, RETH_BYTES, IMMEDIATE_BYTES, ICRC_BYTES = 12, 16, 4, 4


def masked_ip(header):
    """The IP header (without extensions) as the CRC sees it."""
    header = bytearray(header)
    if header[0] >> 4 == 4:
        header[1] = 0xFF
        header[8] = 0xFF
        header[10:12] = b"\xff\xff"
    else:
        header[0] |= 0x0F
        header[1:4] = b"\xff\xff\xff"
        header[7] = 0xFF
    return bytes(header)


def icrc(ip_header, udp_header, transport):
    """The CRC of a packet; `transport` begins with the BTH and ends before the CRC."""
    masked = bytearray(transport)
    masked[4] = 0xFF
    covered = (b"\xff" * 8 + masked_ip(ip_header) + udp_header[:6] + b"\xff\xff" + bytes(masked))
    return struct.pack("<I", zlib.crc32(covered))


def bth(opcode, qpn, psn, pad=0, ack_request=False, pkey=0xFFFF):
    """A base transport header."""
    return struct.pack(">BBHII", opcode, 0x40 | pad << 4, pkey, qpn,
                       (0x80000000 if ack_request else 0) | psn)


def ipv4_header(source, destination, payload_bytes, identification=0):
    """An IPv4 header with DF, as our kernels send it; its checksum is masked anyway."""
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + payload_bytes, identification, 0x4000, 64,
                       17, 0, source, destination)


def ipv6_header(source, destination, payload_bytes):
    """An IPv6 header without extensions."""
    return struct.pack(">IHBB16s16s", 0x60000000, payload_bytes, 17, 64, source, destination)


def udp_header(source_port, payload_bytes):
    """A UDP header towards the RoCEv2 port."""
    return struct.pack(">HHHH", source_port, ROCE_PORT, 8 + payload_bytes, 0)


class Packet:
    """A RoCEv2 packet of a capture: `ip` and `udp` headers, `body` from the BTH to the ICRC."""

    def __init__(self, ip, udp, body):
        self.ip = ip
        self.udp = udp
        self.body = body

    @property
    def opcode(self):
        """The BTH's opcode."""
        return self.body[0]

    def icrc_right(self):
        """Whether the CRC that the packet brings is the one that it should have."""
        return icrc(self.ip, self.udp, self.body[:-ICRC_BYTES]) == self.body[-ICRC_BYTES:]

    def write_payload_bytes(self):
        """How many bytes of RDMA WRITE payload it carries."""
        if self.opcode not in WRITE:
            return 0
        extra = RETH_BYTES if self.opcode in WRITE_WITH_RETH else 0
        extra += IMMEDIATE_BYTES if self.opcode in WITH_IMMEDIATE else 0
        pad = self.body[1] >> 4 & 3
        return len(self.body) - BTH_BYTES - extra - pad - ICRC_BYTES

    def segments(self, packet_bytes):
        """The packets that a device would cut a super-packet into, each with headers of its own:
        lengths fit the segment, and the IPv4 identification counts up."""
        found = []
        for number, start in enumerate(range(0, len(self.body), packet_bytes)):
            body = self.body[start:start + packet_bytes]
            udp = self.udp[:4] + struct.pack(">H", 8 + len(body)) + self.udp[6:]
            ip = bytearray(self.ip)
            if ip[0] >> 4 == 4:
                ip[2:4] = struct.pack(">H", len(ip) + len(udp) + len(body))
                first, = struct.unpack(">H", self.ip[4:6])
                ip[4:6] = struct.pack(">H", first + number & 0xFFFF)
            else:
                ip[4:6] = struct.pack(">H", len(udp) + len(body))
            found.append(Packet(bytes(ip), udp, body))
        return found

    def split(self):
        """The packets of a super-packet whose segment length nobody wrote down: the length with
        which the CRC of the first segment is right. A plain packet comes back as it is."""
        if self.icrc_right():
            return [self]
        for mtu in (4096, 2048, 1024, 512, 256):
            for headers in (0, RETH_BYTES, IMMEDIATE_BYTES, RETH_BYTES + IMMEDIATE_BYTES):
                length = BTH_BYTES + headers + mtu + ICRC_BYTES
                if length < len(self.body):
                    segments = self.segments(length)
                    if segments[0].icrc_right():
                        return segments
        return self.split_by_search()

    def split_by_search(self):
        """Tries every segment length: short messages make packets of any size."""
        for length in range(BTH_BYTES + ICRC_BYTES, len(self.body), 4):
            segments = self.segments(length)
            if segments[0].icrc_right():
                return segments
        return [self]


def parse(link_type, frame):
    """The RoCEv2 packet of a captured frame, or None where it is something else."""
    if link_type == 1:
        if len(frame) < 14:
            return None
        kind, rest = struct.unpack(">H", frame[12:14])[0], frame[14:]
        if kind == 0x8100:
            kind, rest = struct.unpack(">H", rest[2:4])[0], rest[4:]
        if kind not in (0x0800, 0x86DD):
            return None
    elif link_type in (113, 276):
        rest = frame[16 if link_type == 113 else 20:]
    elif link_type == 101:
        rest = frame
    else:
        raise ValueError("link type %d is none of Ethernet, Linux cooked, raw IP" % link_type)
    if len(rest) < 20:
        return None
    if rest[0] >> 4 == 4:
        header_bytes = (rest[0] & 15) * 4
        total, = struct.unpack(">H", rest[2:4])
        fragment, = struct.unpack(">H", rest[6:8])
        if rest[9] != 17 or fragment & 0x3FFF:
            return None
    elif rest[0] >> 4 == 6:
        header_bytes = 40
        payload, = struct.unpack(">H", rest[4:6])
        total = header_bytes + payload
        if rest[6] != 17:
            return None
    else:
        return None
    ip, udp = rest[:header_bytes], rest[header_bytes:header_bytes + 8]
    if len(udp) < 8 or struct.unpack(">H", udp[2:4])[0] != ROCE_PORT:
        return None
    body = rest[header_bytes + 8:total]
    if len(body) < BTH_BYTES + ICRC_BYTES:
        return None
    return Packet(bytes(ip), bytes(udp), bytes(body))


def frames(path):
    """(link type, frame) of every frame of a pcap or pcapng file."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic == b"\x0a\x0d\x0d\x0a":
        yield from pcapng_frames(data)
        return
    orders = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<",
              b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
    if magic not in orders:
        raise ValueError("%s is neither pcap nor pcapng" % path)
    order = orders[magic]
    link_type, = struct.unpack(order + "I", data[20:24])
    at = 24
    while at + 16 <= len(data):
        captured, = struct.unpack(order + "I", data[at + 8:at + 12])
        # The last frame of a capture that was cut off is not whole.
        if at + 16 + captured > len(data):
            return
        yield link_type & 0xFFFF, data[at + 16:at + 16 + captured]
        at += 16 + captured


def pcapng_frames(data):
    """(link type, frame) of the blocks of a pcapng file."""
    order, link_types, at = "<", [], 0
    while at + 12 <= len(data):
        kind = data[at:at + 4]
        if kind == b"\x0a\x0d\x0d\x0a":
            order = "<" if data[at + 8:at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            link_types = []
        length, = struct.unpack(order + "I", data[at + 4:at + 8])
        number, = struct.unpack(order + "I", kind)
        if length < 12 or at + length > len(data):
            return
        if number == 1:
            link_types.append(struct.unpack(order + "H", data[at + 8:at + 10])[0])
        elif number == 6:
            interface, _, _, captured = struct.unpack(order + "IIII", data[at + 8:at + 24])
            yield link_types[interface], data[at + 28:at + 28 + captured]
        at += length
