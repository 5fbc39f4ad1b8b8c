"""Reads tables of programs: a row a command line.

    where | command | options

`where` is a list of topologies (`lo`, `veth1500`, `veth9000`, any other MTU; `*` stands for these
three). The command is what the server runs; the client runs the same with the server's IPv4
address after it, or, when the row says `server => client`, its own, with `@4` or `@6` for the
server's addresses. `@file` is a writable file of 64 MiB, each side's own. Braces spell several rows in one, as in a shell: `ib_{write,read}_bw`, where
`{,-e}` leaves a word away once.

Options: `alone` (no client), `bare` (not under `converb run`), `timeout=SECONDS`, `port=N` (where
the server listens; else what -p says, else 18515), `status=N`, `out=/REGEX/` (must be in the
output of the client, or of a program that runs alone), `no=/REGEX/` (in nobody's), `run=OPTION`
(for `converb run`), `exclusive` (nothing runs beside it), `connected` (the server listens by
rdma_cm), `forever` (the server lives on, and ends by SIGTERM), `#word` (a tag to filter by).

A line `rows N` says how many rows there must be: a table that lost some does not pass.
"""
import copy
import re
import shlex
import zlib

EVERYWHERE = ("lo", "veth1500", "veth9000")


class TableError(Exception):
    """A table that says something the driver does not know."""


class Row:
    """One command line in one topology."""

    def __init__(self, topology, command, options):
        self.topology = topology
        self.command = command
        server, _, client = command.partition(" => ")
        self.server = shlex.split(server)
        self.timeout = 60.0
        self.port = None
        self.status = 0
        self.out, self.no, self.run, self.tags = [], [], [], []
        self.environment = {}
        self.alone = self.bare = self.exclusive = self.connected = self.forever = False
        for name, value in options:
            if name in ("alone", "bare", "exclusive", "connected", "forever"):
                setattr(self, name, True)
            elif name == "timeout":
                self.timeout = float(value)
            elif name in ("port", "status"):
                setattr(self, name, int(value))
            elif name in ("out", "no"):
                getattr(self, name).append(re.compile(value[1:-1], re.M))
            elif name == "run":
                self.run.append(value)
            elif name.startswith("#"):
                self.tags.append(name)
            else:
                raise TableError("unknown option %r of row %r" % (name, command))
        self.client = shlex.split(client) if client else self.server + ["@4"]
        if self.port is None:
            self.port = 18515
            if "-p" in self.server:
                self.port = int(self.server[self.server.index("-p") + 1])

    @property
    def name(self):
        """How the row is called in reports and filters."""
        run = [] if "#disturbed" in self.tags else self.run
        return " ".join([self.topology + ":", self.command] + run + self.tags)


# What a reliable connection has to bear, on both sides.
FAULTS = "drop=1%,reorder=1%,dup=0.5%,corrupt=0.1%,seed=1"
# A lossy network takes longer.
LOSSY_PATIENCE = 10


def is_reliable(row):
    """Whether a row is about reliable connections between two programs."""
    name, words = row.server[0], row.server
    transport = words[words.index("-c") + 1] if "-c" in words[:-1] else "RC"
    kinds = ("ib_", "ibv_rc_", "ibv_srq_", "rping", "ucmatose", "rdma_", "cmtime")
    return (not (row.alone or row.bare or row.status) and name.startswith(kinds)
            and transport not in ("UC", "UD"))


def disturbed(row):
    """The same row where packets are lost, doubled, damaged and overtaken."""
    again = copy.copy(row)
    again.run = row.run + ["--fault=" + FAULTS]
    again.tags = row.tags + ["#disturbed"]
    again.timeout = row.timeout * LOSSY_PATIENCE
    return again


def chaotic(row):
    """The same row where threads pause at locks for as long as a seed says."""
    again = copy.copy(row)
    again.environment = {"CONVERB_CHAOS": str(zlib.crc32(row.name.encode()))}
    again.tags = row.tags + ["#chaotic"]
    again.timeout = row.timeout * LOSSY_PATIENCE
    return again


def each_once(rows):
    """One of the rows with the same command, in another topology each time."""
    commands = {}
    for row in rows:
        commands.setdefault((row.command, tuple(row.run)), []).append(row)
    return [same[index % len(same)] for index, same in enumerate(commands.values())]


def expand(text):
    """All the texts that the braces spell, in order."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [" ".join(text.split())]
    return [row for word in found.group(1).split(",")
            for row in expand(text[:found.start()] + word + text[found.end():])]


def read_options(text):
    """Pairs of a name and a value; the value of a regular expression may hold blanks."""
    pairs = []
    for found in re.finditer(r"(\w+)=(/(?:[^/\\]|\\.)*/|\S+)|(\S+)", text):
        pairs.append((found.group(1), found.group(2)) if found.group(1) else (found.group(3), ""))
    return pairs


def read_table(path):
    """The rows of a table, in its order."""
    rows, expected = [], None
    with open(path) as file:
        lines = file.read().replace("\\\n", " ").splitlines()
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("rows "):
            expected = int(line[5:])
            continue
        # Blanks stand around the bars between columns; those inside expressions have none.
        columns = [column.strip() for column in re.split(r"\s\|(?:\s|$)", line)]
        if len(columns) not in (2, 3):
            raise TableError("%s: not two or three columns: %s" % (path, line))
        where = EVERYWHERE if columns[0] == "*" else columns[0].split()
        options = read_options(columns[2] if len(columns) == 3 else "")
        for command in expand(columns[1]):
            rows += [Row(topology, command, options) for topology in where]
    if expected != len(rows):
        raise TableError("%s has %d rows and says `rows %s`" % (path, len(rows), expected))
    names = [row.name for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise TableError("%s has two rows named %s" % (path, name))
    return rows
