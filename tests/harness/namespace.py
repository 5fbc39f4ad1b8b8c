"""Network namespaces that a test makes itself, and programs in them.

Nothing outside the namespaces is touched: every process that is ended here was found inside one
of them, or was started by this module.
"""
import ctypes
import os
import signal
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
# An ordinary user without any name on most systems; also the kernel's overflow uid.
NOBODY = 65534


def call(*words, check=True):
    """Runs a command of the system; an error shows what it printed."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if check and done.returncode:
        raise RuntimeError("%s: status %d: %s"
                           % (" ".join(words), done.returncode, done.stdout.strip()))
    return done.stdout


class Process:
    """A program inside a namespace; its output goes to files, so that nobody who inherits its
    descriptors can hold the reader up."""

    def __init__(self, namespace, words, folder, label, uid, environment):
        self.words = words
        self.label = label
        self.paths = [os.path.join(folder, "%s.%s" % (label, kind)) for kind in ("out", "err")]
        command = ["ip", "netns", "exec", namespace.name]
        command += as_user(uid) + ["env", "-i"]
        command += ["%s=%s" % pair for pair in sorted(environment.items())]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.popen = subprocess.Popen(command + words, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=err, cwd="/", start_new_session=True)

    @property
    def pid(self):
        """The process of the command itself: what stands before it only execs."""
        return self.popen.pid

    def wait(self, deadline):
        """The exit status, or None when the deadline (time.monotonic) has passed."""
        try:
            return self.popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def running(self):
        """Whether the program has not ended yet."""
        return self.popen.poll() is None

    def kill(self):
        """Ends the program and what it started in its session."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def output(self):
        """What the program wrote to standard output."""
        return read_text(self.paths[0])

    def errors(self):
        """What the program wrote to standard error."""
        return read_text(self.paths[1])


def read_text(path):
    """The text of a file, whatever bytes it holds."""
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")


def as_user(uid):
    """The words before a command that make it run as `uid` without any capability."""
    drop = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]
    # Inside a user namespace that has one id only, the caller's own is the only one to be had.
    if uid is None or not can_change_user():
        return drop
    return drop + ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


def can_change_user():
    """Whether all ids exist here: not so in the user namespace of an ordinary user."""
    with open("/proc/self/uid_map") as file:
        return [int(word) for word in file.read().split()] == [0, 0, 4294967295]


class Namespace:
    """One network namespace, removed with everything that still runs in it."""

    def __init__(self, name):
        self.name = name
        call("ip", "netns", "add", name)
        self.processes = []
        self.lock = threading.Lock()
        # Addresses are usable at once: nothing else is on these links.
        self.ip_command("link", "set", "lo", "up")

    def ip_command(self, *words):
        """`ip` inside the namespace."""
        return call("ip", "-n", self.name, *words)

    def call(self, *words, check=True):
        """A command of the system inside the namespace, as root."""
        return call("ip", "netns", "exec", self.name, *words, check=check)

    def start(self, words, folder, label, uid=NOBODY, environment=None):
        """Starts a program as `uid` without capabilities."""
        process = Process(self, words, folder, label, uid, environment or {})
        with self.lock:
            self.processes.append(process)
        return process

    def inside(self, function):
        """The result of `function`, called by a thread that has joined the namespace: sockets
        that it opens belong there."""
        result = []

        def body():
            try:
                handle = os.open("/run/netns/" + self.name, os.O_RDONLY)
                try:
                    if LIBC.setns(handle, CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                finally:
                    os.close(handle)
                result.append((function(), None))
            except BaseException as error:  # Handed to the caller, whatever it is.
                result.append((None, error))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        value, error = result[0]
        if error is not None:
            raise error
        return value

    def listens(self, port):
        """Whether some TCP socket listens on the port."""
        def look():
            for family in ("tcp", "tcp6"):
                with open("/proc/thread-self/net/" + family) as file:
                    for line in file.readlines()[1:]:
                        words = line.split()
                        if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                            return True
            return False
        return self.inside(look)

    def wait_listening(self, port, process, deadline):
        """True once the port listens; False when the process ended or the time is up before."""
        while time.monotonic() < deadline:
            if self.listens(port):
                return True
            if not process.running():
                return False
            time.sleep(0.02)
        return False

    def pids(self):
        """All processes inside the namespace."""
        words = call("ip", "netns", "pids", self.name, check=False).split()
        return [int(word) for word in words if word.isdigit()]

    def close(self):
        """Ends everything inside, agents included, and removes the namespace."""
        for process in self.processes:
            if process.running():
                process.kill()
        for _ in range(20):
            pids = self.pids()
            if not pids:
                break
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        call("ip", "netns", "del", self.name, check=False)


class Topology:
    """The namespaces that one row runs in: `lo`, one with nothing but loopback, or `vethMTU`,
    two joined by a veth pair."""

    ADDRESSES = (("10.99.0.1", "fd99::1"), ("10.99.0.2", "fd99::2"))
    counter = 0
    counter_lock = threading.Lock()
    live = set()

    def __init__(self, kind):
        with Topology.counter_lock:
            Topology.counter += 1
            number = Topology.counter
            Topology.live.add(self)
        base = "cvb%d-%d" % (os.getpid(), number)
        self.kind = kind
        self.namespaces = []
        try:
            self.build(kind, base)
        except BaseException:
            self.close()
            raise

    def build(self, kind, base):
        """Makes the namespaces."""
        if kind == "lo":
            self.namespaces.append(Namespace(base + "a"))
            self.server_v4, self.server_v6 = "127.0.0.1", "::1"
        elif kind.startswith("veth"):
            mtu = kind[4:]
            for end in "ab":
                self.namespaces.append(Namespace(base + end))
            server, client = self.namespaces
            server.ip_command("link", "add", "veth0", "mtu", mtu, "type", "veth",
                              "peer", "name", "veth0", "mtu", mtu, "netns", client.name)
            for namespace, (v4, v6) in zip(self.namespaces, self.ADDRESSES):
                namespace.ip_command("addr", "add", v4 + "/24", "dev", "veth0")
                namespace.ip_command("addr", "add", v6 + "/64", "dev", "veth0", "nodad")
                # A link-local address that waits for its check would be a GID that fails.
                namespace.call("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/veth0/accept_dad")
            for namespace in self.namespaces:
                namespace.ip_command("link", "set", "veth0", "up")
            self.server_v4, self.server_v6 = self.ADDRESSES[0]
            self.meet()
        elif kind == "down":
            namespace = Namespace(base + "a")
            self.namespaces.append(namespace)
            namespace.ip_command("link", "set", "lo", "down")
            self.server_v4, self.server_v6 = "127.0.0.1", "::1"
        else:
            raise ValueError("no topology named " + kind)

    def meet(self):
        """Waits until both sides have each other's MAC addresses. An interface that has just come
        up misses the first question, and the kernel asks again after a second: longer than an
        RDMA connection with common time-outs tries."""
        deadline = time.monotonic() + 10
        for namespace, (v4, v6) in zip(self.namespaces, reversed(self.ADDRESSES)):
            for address in (v4, v6):
                namespace.call("bash", "-c", "echo >/dev/udp/%s/9" % address, check=False)
                look = ["ip", "neigh", "show", address, "dev", "veth0"]
                while "lladdr" not in namespace.call(*look, check=False):
                    if time.monotonic() > deadline:
                        raise RuntimeError("%s does not answer in %s" % (address, namespace.name))
                    time.sleep(0.02)

    @property
    def server(self):
        """Where servers run."""
        return self.namespaces[0]

    @property
    def client(self):
        """Where clients run."""
        return self.namespaces[-1]

    @property
    def netdev(self):
        """The network interface between the two sides."""
        return "veth0" if self.kind.startswith("veth") else "lo"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes all of it."""
        Topology.live.discard(self)
        for namespace in self.namespaces:
            namespace.close()

    @classmethod
    def close_all(cls):
        """Removes every topology that is still there: what runs in them ends."""
        for topology in list(cls.live):
            topology.close()


def is_real_root():
    """Whether this is root of the machine, who can become any user."""
    return os.geteuid() == 0 and not os.environ.get("CONVERB_TEST_ROOT")


def enter_own_root():
    """For an ordinary user: starts this program again inside a user namespace, where making
    network namespaces is allowed. Root goes on as it is."""
    if is_real_root():
        return
    if os.environ.get("CONVERB_TEST_ROOT"):
        # `ip netns` keeps its handles under /run, which is the real root's.
        if not os.access("/run/netns", os.W_OK):
            call("mount", "-t", "tmpfs", "tmpfs", "/run")
        return
    os.environ["CONVERB_TEST_ROOT"] = "user namespace"
    import sys
    os.execvp("unshare", ["unshare", "-Urnm", sys.executable] + sys.argv)
