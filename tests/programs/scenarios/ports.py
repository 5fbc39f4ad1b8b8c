"""What happens to ports while programs only wait: links and addresses that come and go."""
import time

from harness.outcome import Failure
from . import Scenario

ERROR, ACTIVE, GIDS, FATAL = ("IBV_EVENT_PORT_ERR (10), port 1", "IBV_EVENT_PORT_ACTIVE (9), port 1",
                              "IBV_EVENT_GID_CHANGE (18), port 1",
                              "IBV_EVENT_DEVICE_FATAL (8), port 0")


class Watcher:
    """ibv_asyncwatch, which opens a device, waits and prints, in a namespace."""

    def __init__(self, bench, space):
        self.process = bench.start(space, ["stdbuf", "-oL", "ibv_asyncwatch"], "watcher")
        self.seen = 0
        self.deadline = time.monotonic() + 40
        self.wait(lambda text: "async event FD" in text, "its first line")

    def wait(self, holds, what):
        """Waits until something holds of the output."""
        while not holds(self.process.output()):
            if time.monotonic() > self.deadline or not self.process.running():
                raise Failure("ibv_asyncwatch did not print %s:\n%s"
                              % (what, self.process.output()))
            time.sleep(0.02)

    def events(self):
        """The lines of events so far."""
        lines = self.process.output().splitlines()
        return [line.split("event_type", 1)[1].strip() for line in lines if "event_type" in line]

    def expect(self, what, *names):
        """After something was done: these events, in this order, and no others."""
        self.wait(lambda _: len(self.events()) >= self.seen + len(names),
                  "%s after %s" % (", ".join(names), what))
        time.sleep(0.2)
        new = self.events()[self.seen:]
        if new != list(names):
            raise Failure("after %s: %s instead of %s" % (what, new, list(names)))
        self.seen += len(new)


def links_and_addresses(bench):
    """A program that only waits is told of its port's state and GIDs."""
    near, far = bench.topology.client, bench.topology.server
    watcher = Watcher(bench, near)
    far.ip_command("link", "set", "veth0", "down")
    watcher.expect("the carrier was lost", ERROR)
    far.ip_command("link", "set", "veth0", "up")
    watcher.expect("the carrier came back", ACTIVE)
    near.ip_command("addr", "add", "10.99.7.7/24", "dev", "veth0")
    watcher.expect("an address was added", GIDS)
    near.ip_command("addr", "add", "fd99:7::7/64", "dev", "veth0", "nodad")
    watcher.expect("an IPv6 address was added", GIDS)
    near.ip_command("addr", "del", "10.99.7.7/24", "dev", "veth0")
    watcher.expect("an address was removed", GIDS)
    # Nothing of this concerns the port.
    near.ip_command("link", "add", "other0", "type", "veth", "peer", "name", "other1")
    near.ip_command("link", "set", "other0", "up")
    near.ip_command("addr", "add", "10.98.0.1/24", "dev", "other0")
    near.ip_command("link", "set", "veth0", "mtu", "1400")
    # All in one: messages come faster than anybody looks.
    near.call("sh", "-c", "ip addr add 10.99.8.1/24 dev veth0; for n in $(seq 100); do"
              " ip link set veth0 alias a$n; done")
    watcher.expect("an address was added among much else", GIDS)
    near.ip_command("link", "del", "veth0")
    watcher.wait(lambda text: FATAL in text, "that its device has gone")
    if ERROR not in watcher.events()[watcher.seen:]:
        raise Failure("the port did not fail with its device: %s" % watcher.events())
    if not watcher.process.running():
        raise Failure("ibv_asyncwatch ended")


def shown_before_told(bench):
    """A program that asks when it is told finds what it was told of, and what stays at its
    place."""
    near, far = bench.topology.client, bench.topology.server
    program = bench.start(near, ["port_events"], "program")
    deadline = time.monotonic() + 30
    seen = 0

    def expect(kind, state, has=(), lacks=()):
        """The next line is of this event and shows this."""
        nonlocal seen
        seen += 1
        while len(program.output().splitlines()) < seen:
            if time.monotonic() > deadline or not program.running():
                raise Failure("event %d did not come:\n%s%s"
                              % (kind, program.output(), program.errors()))
            time.sleep(0.02)
        words = program.output().splitlines()[seen - 1].split()
        if words[1] != str(kind) or words[5] != state or set(has) - set(words) \
                or [word for word in words for gone in lacks if word.endswith("=" + gone)]:
            raise Failure("event %d should show %s, %s without %s:\n%s"
                          % (kind, state, has, lacks, program.output()))

    first = ["0=::ffff:10.99.0.2", "1=::ffff:10.99.0.2", "3=::ffff:10.99.0.2", "2=fd99::2"]
    expect(-1, "active", first)
    far.ip_command("link", "set", "veth0", "down")
    expect(10, "down", first)
    far.ip_command("link", "set", "veth0", "up")
    expect(9, "active", first)
    # Link-local addresses have 4, so the newcomers come behind, whatever their family.
    near.ip_command("addr", "add", "10.99.7.1/24", "dev", "veth0")
    expect(18, "active", first + ["5=::ffff:10.99.7.1"])
    near.ip_command("addr", "add", "10.99.8.1/24", "dev", "veth0")
    expect(18, "active", first + ["5=::ffff:10.99.7.1", "6=::ffff:10.99.8.1"])
    near.ip_command("addr", "del", "10.99.7.1/24", "dev", "veth0")
    expect(18, "active", first + ["6=::ffff:10.99.8.1"], ["::ffff:10.99.7.1"])
    near.ip_command("addr", "add", "fd99:7::1/64", "dev", "veth0", "nodad")
    expect(18, "active", first + ["5=fd99:7::1", "6=::ffff:10.99.8.1"])
    # The first goes: its indices pass to the next, which keeps its own as well.
    near.ip_command("addr", "del", "10.99.0.2/24", "dev", "veth0")
    expect(18, "active", ["0=::ffff:10.99.8.1", "2=fd99::2", "6=::ffff:10.99.8.1"],
           ["::ffff:10.99.0.2"])
    program.kill()


# Opens a device, closes every descriptor but the program's own and the event descriptor, and
# waits: the watch has to notice, and begin anew.
CLOSED = r"""
import ctypes, os, struct, sys
verbs = ctypes.CDLL("libibverbs.so.1")
for name in ("ibv_get_device_list", "ibv_open_device"):
    getattr(verbs, name).restype = ctypes.c_void_p
listed = verbs.ibv_get_device_list(None)
device = ctypes.c_void_p.from_address(listed).value
before = set(os.listdir("/proc/self/fd"))
context = verbs.ibv_open_device(ctypes.c_void_p(device))
new = sorted(int(n) for n in set(os.listdir("/proc/self/fd")) - before if int(n) < 100)
print("low descriptors:", new, flush=True)
os.closerange(100, 5000)
print("ready", flush=True)
event = ctypes.create_string_buffer(16)
for _ in range(2):
    while verbs.ibv_get_async_event(ctypes.c_void_p(context), event):
        pass
    print("event", struct.unpack_from("Pi", event)[1], flush=True)
    if os.fork() == 0:
        # A child of whom the watch has to know as well, though the thread is its parent's.
        os.execv("/bin/true", ["true"])
    os.wait()
    os.closerange(100, 5000)
"""


def descriptors_closed(bench):
    """A program that closes all descriptors it does not know still gets its events."""
    near, far = bench.topology.client, bench.topology.server
    program = bench.start(near, ["/usr/bin/python3", "-c", CLOSED], "program")
    deadline = time.monotonic() + 20
    for count, text, state in ((1, "ready", "down"), (2, "event 10", "up"), (3, "event 9", None)):
        while text not in program.output():
            if time.monotonic() > deadline or not program.running():
                if text in program.output():
                    break
                raise Failure("the program did not print %r:\n%s%s"
                              % (text, program.output(), program.errors()))
            time.sleep(0.02)
        if state:
            time.sleep(0.1)
            far.ip_command("link", "set", "veth0", state)
    bench.finish(program, deadline)


SCENARIOS = [
    Scenario("links and addresses come and go", "veth1500", links_and_addresses),
    Scenario("ports show what is told of them", "veth1500", shown_before_told),
    Scenario("a port is watched without descriptors", "veth1500", descriptors_closed),
]
