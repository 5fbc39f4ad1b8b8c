#!/usr/bin/python3
"""Runs commands inside the guest for the host.

The host writes one JSON line to a virtio-serial port: {"id", "command", "timeout"}. The answer is
one JSON line: {"id", "status", "stdout", "stderr"}; status 124 says that the time was up. One
command at a time on a port; several ports give several at once.
"""
import glob
import json
import os
import signal
import subprocess
import tempfile
import threading
import time


def ports():
    """Device nodes of the ports named agent.N, in the order of N."""
    found = []
    for folder in glob.glob("/sys/class/virtio-ports/*"):
        with open(folder + "/name") as file:
            name = file.read().strip()
        if name.startswith("agent."):
            found.append((int(name[6:]), "/dev/" + os.path.basename(folder)))
    return [path for _, path in sorted(found)]


def execute(request):
    """Runs the command and returns the answer to it."""
    # Files, not pipes: a child that goes on in the background must not hold the answer back.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            ["/bin/bash", "-c", request["command"]],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd="/root", start_new_session=True)
        try:
            status = process.wait(request["timeout"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 124
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if status < 0:
        status = 128 - status
    return {"id": request["id"], "status": status, "stdout": texts[0], "stderr": texts[1]}


def serve(path):
    """Answers the requests of one port, for ever."""
    # While no host is connected a read returns at once with nothing.
    port = os.open(path, os.O_RDWR)
    pending = b""
    while True:
        data = os.read(port, 65536)
        if not data:
            pending = b""
            time.sleep(0.05)
            continue
        pending += data
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            if not line.startswith(b"{"):
                continue
            answer = json.dumps(execute(json.loads(line))).encode() + b"\n"
            while answer:
                answer = answer[os.write(port, answer):]


if __name__ == "__main__":
    threads = [threading.Thread(target=serve, args=(path,)) for path in ports()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
