#!/usr/bin/env python3
"""Plays a pair of test programs over plain TCP, well or with a fault, to prove the driver."""
import argparse
import os
import socket
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--client", choices=["exit", "hang", "silent", "panic", "die", "unmeasured"])
parser.add_argument("--server", choices=["exit", "hang", "deaf"])
parser.add_argument("-p", type=int, default=18515)
parser.add_argument("address", nargs="?")
arguments = parser.parse_args()

if arguments.address is None:
    if arguments.server == "deaf":
        sys.exit(0)
    listener = socket.create_server(("0.0.0.0", arguments.p))
    connection, _ = listener.accept()
    connection.recv(1)
    fault = arguments.server
else:
    connection = socket.create_connection((arguments.address, arguments.p))
    connection.send(b"x")
    fault = arguments.client
    if fault != "silent":
        print(" 65536      5000             100.0              100.0              0.1")
if fault == "unmeasured":
    print("Correlation coefficient r^2: 0.874571 < 0.9")
    sys.exit(1)
if fault == "exit":
    sys.exit(1)
if fault == "hang":
    time.sleep(3600)
if fault == "panic":
    print("thread 'main' panicked at src/lib.rs", file=sys.stderr)
if fault == "die":
    os.abort()
