"""Asks the `converb` command inside a namespace."""
import json
import time

from harness.outcome import Failure


def ask_json(bench, namespace, words, label):
    """The JSON that `converb WORDS --json` prints."""
    process = bench.start(namespace, ["converb"] + words + ["--json"], label)
    bench.finish(process, time.monotonic() + 15)
    try:
        return json.loads(process.output())
    except ValueError:
        raise Failure("`converb %s --json` printed no JSON: %r"
                      % (" ".join(words), process.output()[:500]))


def agent_pid(bench, namespace, label="status", patience=0.0):
    """The pid of the agent, as `converb agent status` prints it; waits `patience` seconds for one
    where programs have just been started."""
    deadline = time.monotonic() + patience
    while True:
        status = ask_json(bench, namespace, ["agent", "status"], label)
        agent = status.get("agent") or {}
        if agent.get("pid"):
            return agent["pid"]
        if time.monotonic() >= deadline:
            raise Failure("`converb agent status --json` names no pid: %r" % status)
        time.sleep(0.1)


def counters(bench, namespace, device, label="devices"):
    """The counters of a device as a flat dictionary."""
    listed = ask_json(bench, namespace, ["devices"], label)["devices"]
    for entry in listed:
        if entry["name"] == device:
            return flat(entry.get("counters") or {})
    raise Failure("`converb devices --json` does not list %s: %r"
                  % (device, [entry["name"] for entry in listed]))


def flat(values, prefix=""):
    """A dictionary of dictionaries as one, with dots between the names."""
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found.update(flat(value, prefix + name + "."))
        elif isinstance(value, int):
            found[prefix + name] = value
    return found


def drops(bench, namespace, device, label):
    """How many packets were dropped so far, whatever the reason: by the programs on a device and
    by the agent, which has the slots that nobody uses."""
    counted = counters(bench, namespace, device, label)
    status = ask_json(bench, namespace, ["agent", "status"], label + "-agent")
    agent = (status.get("agent") or {}).get("management_drops", 0)
    return agent + sum(value for name, value in counted.items() if "drop" in name)


def alive(pid):
    """Whether a process runs; one that nobody has collected yet does not."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False
