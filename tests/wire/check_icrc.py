#!/usr/bin/env python3
"""Checks the invariant CRC of every RoCEv2 packet in captures, and counts RDMA WRITE payload.

Usage: check_icrc.py [--min-write-bytes N] [--json] FILE...
Status 1 when a CRC is wrong, when a file has no RoCEv2 packet, or when there is less payload than
asked for. Super-packets, which cross a virtual link whole, are cut as a device would cut them.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import roce  # noqa: E402


def check(path):
    """What a capture holds: counts, and the frame numbers of wrong packets."""
    found = {"file": path, "frames": 0, "packets": 0, "super_packets": 0, "write_bytes": 0,
             "wrong": []}
    for number, (link_type, frame) in enumerate(roce.frames(path), 1):
        found["frames"] += 1
        packet = roce.parse(link_type, frame)
        if packet is None:
            continue
        pieces = packet.split()
        found["super_packets"] += len(pieces) > 1
        found["packets"] += len(pieces)
        for piece in pieces:
            if len(piece.body) < roce.BTH_BYTES + roce.ICRC_BYTES or not piece.icrc_right():
                found["wrong"].append(number)
                break
            found["write_bytes"] += piece.write_payload_bytes()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--min-write-bytes", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    status = 0
    results = [check(path) for path in arguments.files]
    for found in results:
        problems = []
        if found["wrong"]:
            problems.append("%d frames with a wrong ICRC, first: %s"
                            % (len(found["wrong"]), found["wrong"][:5]))
        if not found["packets"]:
            problems.append("no RoCEv2 packet")
        if found["write_bytes"] < arguments.min_write_bytes:
            problems.append("less than %d bytes of RDMA WRITE payload" % arguments.min_write_bytes)
        status = 1 if problems else status
        if not arguments.json:
            print("%s: %d packets (%d super-packets), %d bytes of RDMA WRITE payload: %s"
                  % (found["file"], found["packets"], found["super_packets"],
                     found["write_bytes"], "; ".join(problems) or "right"))
    if arguments.json:
        print(json.dumps(results))
    return status


if __name__ == "__main__":
    sys.exit(main())
