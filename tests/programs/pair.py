"""Runs a row: the server, the client once the server listens, and what must be true afterwards."""
import os
import re
import signal
import time

from ask import ask_json
from harness.outcome import Failure, tail

# What no program may print, whatever its exit status.
NEVER = [re.compile(pattern, re.M) for pattern in (
    r"panicked at", r"invalid data in page", r"Segmentation fault", r"stack smashing")]
# What programs print when they have done their work: an exit status alone proves little.
DONE = {
    "ib_": re.compile(r"^ *\d+ +\d+ +[0-9.]+ +[0-9.]+", re.M),
    "ibv_rc_pingpong": re.compile(r"^\d+ iters in ", re.M),
}


class Bench:
    """What a test needs to run programs: the stage, a topology, a folder for output."""

    def __init__(self, stage, topology, folder, uid, run_options=()):
        self.stage = stage
        self.topology = topology
        self.folder = folder
        self.uid = uid
        self.run_options = list(run_options)
        self.processes = []

    def start(self, namespace, words, label, bare=False, run=(), uid=None, environment=None):
        """Starts a program, under `converb run` unless `bare` or it is converb itself."""
        words = list(words)
        if words[0] == "converb":
            words[0] = self.stage.converb
        elif not bare:
            words = [self.stage.converb, "run"] + self.run_options + list(run) + ["--"] + words
        values = self.stage.environment()
        values.update(environment or {})
        process = namespace.start(words, self.folder, label, self.uid if uid is None else uid,
                                  values)
        self.processes.append(process)
        return process

    def finish(self, process, deadline, status=0):
        """Waits for the end of a program, which must have this status."""
        seen = process.wait(deadline)
        if seen is None:
            raise Failure("the %s did not end in time" % process.label)
        if seen != status:
            raise Failure("the %s ended with status %d, not %d" % (process.label, seen, status))
        check_never(process)

    def pair(self, command, timeout=30.0, port=18515, client_words=None, name="", run=(),
             environment=None):
        """A server and a client that must both end with status 0; returns the client."""
        deadline = time.monotonic() + timeout
        server = self.start(self.topology.server, command, name + "server", run=run,
                            environment=environment)
        self.listening(self.topology.server, port, server, deadline)
        words = client_words or list(command) + [self.topology.server_v4]
        client = self.start(self.topology.client, words, name + "client", run=run,
                            environment=environment)
        self.finish(client, deadline)
        self.finish(server, deadline)
        check_done(client)
        return client

    def listening(self, namespace, port, server, deadline):
        """Waits until the server listens."""
        if namespace.wait_listening(port, server, deadline):
            return
        if server.running():
            raise Failure("the %s does not listen on port %d in time" % (server.label, port))
        raise Failure("the %s ended with status %d before it listened on port %d"
                      % (server.label, server.wait(deadline), port))

    def serving(self, namespace, server, deadline):
        """Waits until a program listens by rdma_cm."""
        while time.monotonic() < deadline and server.running():
            status = ask_json(self, namespace, ["agent", "status"], "ready")
            if (status.get("agent") or {}).get("listeners", 0) > 0:
                return
            time.sleep(0.05)
        raise Failure("the %s does not listen" % server.label)

    def details(self):
        """The command lines and the ends of all outputs."""
        text = ""
        for process in self.processes:
            status = process.popen.poll()
            text += "-- %s (%s): %s\n" % (process.label, "runs" if status is None else
                                          "status %d" % status, " ".join(process.words))
            for kind, output in (("out", process.output()), ("err", process.errors())):
                if output.strip():
                    text += "[%s]\n%s\n" % (kind, tail(output))
        return text


def end(server, deadline):
    """Ends a server that serves for ever, and must still do so."""
    if not server.running():
        raise Failure("the %s ended with status %d" % (server.label, server.wait(deadline)))
    server.popen.terminate()
    if server.wait(deadline) not in (-signal.SIGTERM, 128 + signal.SIGTERM, 0):
        raise Failure("the %s did not end by SIGTERM" % server.label)
    check_never(server)


def check_never(process):
    """Fails when a program printed what none may."""
    for pattern in NEVER:
        found = pattern.search(process.output()) or pattern.search(process.errors())
        if found:
            raise Failure("the %s printed %r" % (process.label, found.group(0)))


def check_done(process):
    """Fails when a program we know did not print its result."""
    for word in process.words:
        for prefix, pattern in DONE.items():
            if word.rsplit("/", 1)[-1].startswith(prefix):
                if not pattern.search(process.output()):
                    raise Failure("the %s printed no result" % process.label)
                return


def scratch_file(bench, label):
    """A file of 64 MiB without content that any user may write."""
    path = os.path.join(bench.folder, label + ".data")
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    os.chmod(path, 0o666)
    return path


def run_row(bench, row):
    """Runs a row of a table; raises Failure."""
    topology = bench.topology
    row_server = [word.replace("@file", scratch_file(bench, "server")) if "@file" in word else word
                  for word in row.server]
    deadline = time.monotonic() + row.timeout
    server = bench.start(topology.server, row_server, "program" if row.alone else "server",
                         row.bare, row.run, environment=row.environment)
    processes = [server]
    if row.alone:
        judged = server
    else:
        if row.connected:
            bench.serving(topology.server, server, deadline)
        else:
            bench.listening(topology.server, row.port, server, deadline)
        words = [word.replace("@4", topology.server_v4).replace("@6", topology.server_v6)
                 for word in row.client]
        words = [word.replace("@file", scratch_file(bench, "client")) if "@file" in word else word
                 for word in words]
        judged = bench.start(topology.client, words, "client", row.bare, row.run,
                             environment=row.environment)
        processes.insert(0, judged)
    for process in processes:
        if row.forever and process is server:
            end(server, deadline)
        else:
            bench.finish(process, deadline, row.status if process is judged else 0)
    if row.status == 0 and not row.alone:
        check_done(judged)
    for pattern in row.out:
        if not pattern.search(judged.output()):
            raise Failure("the %s did not print /%s/" % (judged.label, pattern.pattern))
    for pattern in row.no:
        for process in processes:
            if pattern.search(process.output()) or pattern.search(process.errors()):
                raise Failure("the %s printed /%s/" % (process.label, pattern.pattern))
