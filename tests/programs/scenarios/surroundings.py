"""Something around the program is wrong: a message says what and what to do, once."""
import os
import shutil
import socket
import subprocess
import time

from harness.outcome import Failure
from . import Scenario


def said_once(process, *words):
    """Fails unless exactly one line on standard error has all the words."""
    lines = [line for line in process.errors().splitlines() if "converb" in line]
    good = [line for line in lines if all(word in line for word in words)]
    if len(good) != 1 or len(lines) != 1:
        raise Failure("standard error should have one line of converb's, with %s:\n%s"
                      % (", ".join(words), process.errors()))


def port_taken(bench):
    """Something else has port 4791."""
    space = bench.topology.server

    def take():
        taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taker.bind(("0.0.0.0", 4791))
        return taker

    taker = space.inside(take)
    try:
        process = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "program")
        status = process.wait(time.monotonic() + 15)
        if status in (0, None):
            raise Failure("the program did not fail: status %s" % status)
        said_once(process, "4791")
    finally:
        taker.close()
    # Once the port is free again, programs start.
    bench.pair(["ibv_rc_pingpong", "-g", "0"], name="after-")


def no_interface(bench):
    """No interface is up."""
    process = bench.start(bench.topology.server, ["ibv_devinfo"], "program")
    if process.wait(time.monotonic() + 15) is None:
        raise Failure("the program did not end")
    said_once(process, "interface")


# Loads a seccomp filter under which socket(AF_UNIX) fails with EACCES, then becomes the program.
FORBID = r"""
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k):
    return struct.pack("<HBBI", code, jt, jf, k)
program = (op(0x20, 0, 0, 0) + op(0x15, 0, 3, 41) + op(0x20, 0, 0, 16) + op(0x15, 0, 1, 1)
           + op(0x06, 0, 0, 0x00050000 | 13) + op(0x06, 0, 0, 0x7FFF0000))
text = ctypes.create_string_buffer(program, len(program))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
described = Filter(len(program) // 8, ctypes.addressof(text))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(described), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def forbidden_socket(bench):
    """A sandbox forbids the socket on which the agent is reached."""
    words = ["/usr/bin/python3", "-c", FORBID, bench.stage.converb, "run", "ibv_rc_pingpong",
             "-g", "0"]
    process = bench.start(bench.topology.server, words, "program", bare=True)
    status = process.wait(time.monotonic() + 15)
    if status in (0, None):
        raise Failure("the program did not fail: status %s" % status)
    said_once(process, "permission")


# Loads two files that are the same library, as happens where links became copies.
LOAD_TWICE = r"""
import ctypes, sys
for path in sys.argv[1:]:
    library = ctypes.CDLL(path)
    library.ibv_get_device_list.restype = ctypes.c_void_p
    print(path, bool(library.ibv_get_device_list(None)))
"""


def copied_library(bench):
    """Two copies of the library in one process."""
    paths = []
    for name in ("one", "two"):
        folder = os.path.join(bench.folder, name)
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        paths.append(shutil.copy(bench.stage.path("lib/libconverb_verbs.so"), folder))
        os.chmod(paths[-1], 0o755)
    process = bench.start(bench.topology.server,
                          ["/usr/bin/python3", "-c", LOAD_TWICE] + paths, "program", bare=True)
    if process.wait(time.monotonic() + 15) is None:
        raise Failure("the program did not end")
    said_once(process, "copies", "link")
    # Links to one file are one library, and nothing is said.
    links = []
    for name in ("a.so", "b.so"):
        links.append(os.path.join(bench.folder, name))
        os.symlink(paths[0], links[-1])
    process = bench.start(bench.topology.server,
                          ["/usr/bin/python3", "-c", LOAD_TWICE] + links, "linked", bare=True)
    bench.finish(process, time.monotonic() + 15)
    if "converb" in process.errors():
        raise Failure("links to one library were taken for copies: " + process.errors())


def static_program(bench):
    """A static program is refused, for it would run as if Converb were not there."""
    source = os.path.join(bench.folder, "static.c")
    program = os.path.join(bench.folder, "static")
    with open(source, "w") as file:
        file.write("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", program, source], check=True)
    os.chmod(program, 0o755)
    process = bench.start(bench.topology.server, [program], "static")
    bench.finish(process, time.monotonic() + 15, status=126)
    said_once(process, "linked statically", "libibverbs")


SCENARIOS = [
    Scenario("a static program", "lo", static_program),
    Scenario("port 4791 is taken", "lo", port_taken),
    Scenario("no interface is up", "down", no_interface),
    Scenario("the agent's socket is forbidden", "lo", forbidden_socket),
    Scenario("copies of the library", "lo", copied_library),
]
