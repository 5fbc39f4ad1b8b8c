"""What programs do to themselves and to their processes, in ways that no row has."""
import os
import re
import time

from ask import agent_pid
from harness.outcome import Failure
from . import Scenario

PINGPONG = ["ibv_rc_pingpong", "-g", "0"]


def bound_now(bench):
    """Symbols are bound when the library is loaded: each that a program names must be there."""
    bench.pair(PINGPONG, environment={"LD_BIND_NOW": "1"}, name="pingpong-")
    bench.pair(["ib_write_bw", "-n", "100", "-p", "18600"], port=18600,
               environment={"LD_BIND_NOW": "1"}, name="perftest-")


def limited(bench, limit, command, port, uid=None):
    """A server and a client of which neither may have more than so many files open."""
    topology = bench.topology
    deadline = time.monotonic() + 30
    words = ["sh", "-c", "ulimit -n %d; exec \"$@\"" % limit, "sh"] + command + ["-p", str(port)]
    server = bench.start(topology.server, words, "server-%d" % port, uid=uid)
    bench.listening(topology.server, port, server, deadline)
    client = bench.start(topology.client, words + [topology.server_v4], "client-%d" % port,
                         uid=uid)
    bench.finish(client, deadline)
    bench.finish(server, deadline)


def limited_beside_an_agent(bench):
    """Where an agent is up, 64 open files must do, with completion events, too."""
    space = bench.topology.server
    member = bench.start(space, PINGPONG + ["-p", "18600"], "member")
    bench.listening(space, 18600, member, time.monotonic() + 15)
    limited(bench, 64, PINGPONG, 18700)
    limited(bench, 64, ["ib_send_bw", "-e", "-n", "100"], 18701)


def limited_from_the_start(bench):
    """64 must also do for the agent that such a program starts. The kernel compares what all
    programs of a user have under way in sockets with this limit, so it takes a user who has
    nothing."""
    limited(bench, 64, PINGPONG, 18700, uid=64064)


def executed_at_once(bench):
    """Programs that only execute the next one: a shell, env, nice, a script."""
    command = ["sh", "-c", "exec env nice sh -c 'exec \"$@\"' sh \"$@\"", "sh"] + PINGPONG
    bench.pair(command, name="wrapped-")


# Loads the library as plug-ins are loaded, uses it, and closes it again, several times.
LOADED = r"""
import _ctypes, ctypes, os, sys
mode = getattr(os, sys.argv[1]) | os.RTLD_NOW | getattr(os, sys.argv[2])
for number in range(5):
    verbs = ctypes.CDLL("libibverbs.so.1", mode=mode)
    pointer = ctypes.c_void_p
    def call(name, *arguments, result=pointer):
        function = getattr(verbs, name)
        function.restype = result
        value = function(*arguments)
        assert value or result is not pointer, name
        return pointer(value) if result is pointer else value
    devices = call("ibv_get_device_list", None)
    context = call("ibv_open_device", pointer(pointer.from_address(devices.value).value))
    domain = call("ibv_alloc_pd", context)
    memory = ctypes.create_string_buffer(4096)
    region = call("ibv_reg_mr", domain, memory, ctypes.c_size_t(4096), 1)
    queue = call("ibv_create_cq", context, 16, None, None, 0)
    assert call("ibv_destroy_cq", queue, result=ctypes.c_int) == 0
    assert call("ibv_dereg_mr", region, result=ctypes.c_int) == 0
    assert call("ibv_dealloc_pd", domain, result=ctypes.c_int) == 0
    assert call("ibv_close_device", context, result=ctypes.c_int) == 0
    call("ibv_free_device_list", devices, result=None)
    _ctypes.dlclose(verbs._handle)
print("all right")
"""


def loaded_and_closed(bench):
    """dlopen and dlclose, again and again, in each of their ways."""
    for binding in ("RTLD_LOCAL", "RTLD_GLOBAL"):
        for how in ("RTLD_DEEPBIND", "RTLD_NODELETE", "RTLD_NOW"):
            process = bench.start(bench.topology.server,
                                  ["/usr/bin/python3", "-c", LOADED, how, binding],
                                  "%s-%s" % (how, binding))
            bench.finish(process, time.monotonic() + 30)
            if "all right" not in process.output():
                raise Failure("with %s the program did not end well" % how)


# Forks twice, as daemons do; the grandchild becomes an RDMA program, whose output goes to a file.
DOUBLE_FORK = r"""
import ctypes, os, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.c_void_p
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_create_cq.restype = ctypes.c_void_p
def opened():
    devices = verbs.ibv_get_device_list(None)
    device = ctypes.c_void_p.from_address(devices).value
    context = verbs.ibv_open_device(ctypes.c_void_p(device))
    assert context and verbs.ibv_create_cq(ctypes.c_void_p(context), 16, None, None, 0)
opened()
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(3, 8192)
opened()
os.execvp(sys.argv[1], sys.argv[1:])
"""


def forked_twice(bench):
    """A Python program that has the library at work becomes a daemon, which serves."""
    topology = bench.topology
    deadline = time.monotonic() + 30
    starter = bench.start(topology.server,
                          ["/usr/bin/python3", "-c", DOUBLE_FORK] + PINGPONG, "daemon")
    bench.finish(starter, deadline)
    while not topology.server.listens(18515):
        if time.monotonic() > deadline:
            raise Failure("the daemon does not listen:\n" + starter.errors())
        time.sleep(0.02)
    client = bench.start(topology.client, PINGPONG + [topology.server_v4], "client")
    bench.finish(client, deadline)


def descriptors_of(pid):
    """How many files a process has open."""
    return len(os.listdir("/proc/%d/fd" % pid))


def leaves_nothing(bench):
    """After programs that left in every way, only the agent is there, with no more files than
    before, and it knows nobody."""
    space = bench.topology.server
    member = bench.start(space, PINGPONG + ["-p", "18600"], "first")
    bench.listening(space, 18600, member, time.monotonic() + 15)
    member.kill()
    agent = agent_pid(bench, space, "before")
    # Slots rest for two seconds, and the agent keeps as many as were ever used at once.
    counts = []
    for number in range(3):
        for how in ("exit", "_exit", "abort", "term", "kill", "exec"):
            process = bench.start(space, ["leaving", how], "%s-%d" % (how, number))
            bench.finish(process, time.monotonic() + 40)
        time.sleep(2.5)
        counts.append(descriptors_of(agent))
        others = [pid for pid in space.pids() if pid != agent]
        if others:
            raise Failure("processes are left: %s" % others)
    if counts[-1] > counts[0]:
        raise Failure("the agent's open files grow: %s" % counts)
    last = bench.start(space, ["converb", "agent", "stop"], "stop")
    bench.finish(last, time.monotonic() + 15)


# What valgrind says of each error, and where it was.
BLOCK = re.compile(r"^==\d+== (\S[^\n]*)\n((?:==\d+==    [^\n]*\n)+)", re.M)


def under_valgrind(bench):
    """memcheck finds no access of the library's that it may not do, and nothing lost by it."""
    topology = bench.topology
    deadline = time.monotonic() + 150
    # It runs one thread at a time. A program that polls without a pause would, without fairness
    # or on a busy machine, leave none for the thread that is to receive for it: hence events.
    valgrind = ["valgrind", "--fair-sched=yes", "--read-inline-info=no", "--num-callers=40",
                "--leak-check=full", "--show-leak-kinds=definite"]
    command = PINGPONG + ["-e", "-n", "50", "-s", "20000"]
    server = bench.start(topology.server, valgrind + command, "server")
    bench.listening(topology.server, 18515, server, deadline)
    client = bench.start(topology.client, valgrind + command + [topology.server_v4], "client")
    for process in (client, server):
        bench.finish(process, deadline)
        text = process.errors()
        if "ERROR SUMMARY" not in text or "iters in" not in process.output():
            raise Failure("the %s did not run to its end under valgrind" % process.label)
        for what, where in BLOCK.findall(text):
            if "converb" in where:
                raise Failure("valgrind says of the %s: %s\n%s" % (process.label, what, where))


SCENARIOS = [
    Scenario("symbols bound at start", "lo", bound_now),
    Scenario("few open files beside an agent", "lo", limited_beside_an_agent),
    Scenario("few open files from the start", "lo", limited_from_the_start, two_users=True),
    Scenario("an RDMA program executed right away", "lo", executed_at_once),
    Scenario("the library loaded and closed", "lo", loaded_and_closed),
    Scenario("a Python program forks twice", "lo veth1500", forked_twice),
    Scenario("programs leave nothing behind", "lo", leaves_nothing),
    Scenario("valgrind finds nothing", "lo", under_valgrind, exclusive=True),
]
