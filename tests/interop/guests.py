"""QEMU guests whose kernel brings rdma_rxe up, in a network namespace of their own.

The namespace `vm-NAME` has a bridge with the host's side, 10.77.0.1 and fd77::1; guest number i
is 10.77.0.(1+i) and fd77::(1+i). Commands reach a guest through virtio-serial ports, not through
its network.
"""
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from harness.namespace import Namespace  # noqa: E402

PORTS = 4
# Packets cross as they are sent: no segmentation or checksum work is left to a device.
NO_OFFLOAD = ",".join(word + "=off" for word in (
    "csum gso guest_csum guest_tso4 guest_tso6 guest_ecn guest_ufo "
    "host_tso4 host_tso6 host_ecn host_ufo").split())


class GuestError(Exception):
    """A guest did not come up or does not answer."""


class Guest:
    """One guest of a `Peers`."""

    def __init__(self, peers, number):
        self.number = number
        self.address = "10.77.0.%d" % (1 + number)
        self.folder = os.path.join(peers.folder, "guest%d" % number)
        os.mkdir(self.folder)
        self.channels = queue.Queue()
        self.counter = 0
        self.boot(peers)

    def boot(self, peers):
        """Starts QEMU; the guest is not up yet when this returns."""
        tap = "tap%d" % self.number
        peers.namespace.call("ip", "tuntap", "add", tap, "mode", "tap")
        peers.namespace.ip_command("link", "set", tap, "mtu", str(peers.mtu), "master", "br0", "up")
        # Emulation unless told otherwise: it is there everywhere, and nested hardware
        # virtualization fails in ways that differ from machine to machine.
        accel = os.environ.get("CONVERB_ACCEL", "tcg")
        command = ["qemu-system-x86_64", "-machine", "q35,hpet=off", "-smp", "1", "-m", "512",
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-accel", "tcg,thread=multi,tb-size=256" if accel == "tcg" else accel,
                   "-cpu", "max" if accel == "tcg" else "host",
            "-kernel", peers.image("vmlinuz"), "-initrd", peers.image("initrd"),
            "-append", "console=ttyS0 quiet loglevel=4 mitigations=off audit=0 nokaslr "
            # perftest compares the time-stamp counter with the clock: only when the clock is that
            # counter do the two agree on a busy machine.
            "tsc=reliable clocksource=tsc random.trust_cpu=on panic=-1 net.ifnames=0 "
            "vm.name=%s vm.index=%d vm.mtu=%d" % (peers.name, self.number, peers.mtu),
            "-drive", "file=%s,if=none,id=root,format=raw,snapshot=on,cache=unsafe"
            % peers.image("root.img"),
            "-device", "virtio-blk-pci,drive=root",
            "-netdev", "tap,id=net,ifname=%s,script=no,downscript=no" % tap,
            "-device", "virtio-net-pci,netdev=net,mac=52:54:00:77:00:%02x,%s"
            % (self.number, NO_OFFLOAD),
            "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
            "-device", "virtio-serial-pci,max_ports=8",
            "-serial", "file:" + os.path.join(self.folder, "console.log")]
        for port in range(PORTS):
            command += ["-chardev", "socket,id=port%d,path=%s,server=on,wait=off"
                        % (port, self.socket_path(port)),
                        "-device", "virtserialport,chardev=port%d,name=agent.%d" % (port, port)]
        with open(os.path.join(self.folder, "qemu.log"), "wb") as log:
            self.qemu = subprocess.Popen(["ip", "netns", "exec", peers.namespace.name] + command,
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         start_new_session=True)

    def socket_path(self, port):
        """The host's end of a port."""
        return os.path.join(self.folder, "port%d" % port)

    def wait_up(self, deadline):
        """Returns once the guest takes commands and rxe0 is active."""
        while not os.path.exists(self.socket_path(PORTS - 1)):
            self.check_alive(deadline)
            time.sleep(0.05)
        for port in range(PORTS):
            channel = socket.socket(socket.AF_UNIX)
            channel.connect(self.socket_path(port))
            self.channels.put([channel, b""])
        done = self.run("until rdma link show rxe0/1 | grep -q 'state ACTIVE'; do sleep 0.1; done",
                        max(1.0, deadline - time.monotonic()))
        if done["status"]:
            raise GuestError("rxe0 did not come up: " + json.dumps(done))

    def check_alive(self, deadline):
        """Raises when the guest ended or the time is up."""
        if self.qemu.poll() is not None or time.monotonic() > deadline:
            raise GuestError("the guest did not come up:\n" + self.log_tail())

    def log_tail(self):
        """The end of what QEMU and the guest's kernel printed."""
        text = ""
        for name in ("qemu.log", "console.log"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += "".join(file.readlines()[-15:])
        return text

    def run(self, command, timeout=60.0):
        """Runs a shell command: {"status", "stdout", "stderr"}; status 124 when the time is up."""
        channel = self.channels.get()
        self.counter += 1
        number = "%d" % self.counter
        request = {"id": number, "command": command, "timeout": timeout}
        channel[0].sendall(json.dumps(request).encode() + b"\n")
        # The agent keeps the time itself; this one only notices a guest that hangs.
        deadline = time.monotonic() + timeout + 30
        while True:
            while b"\n" in channel[1]:
                line, channel[1] = channel[1].split(b"\n", 1)
                answer = json.loads(line) if line.startswith(b"{") else {}
                if answer.get("id") == number:
                    self.channels.put(channel)
                    return answer
            channel[0].settimeout(max(0.1, deadline - time.monotonic()))
            try:
                data = channel[0].recv(65536)
            except socket.timeout:
                data = b""
            if not data:
                raise GuestError("guest %d does not answer:\n%s" % (self.number, self.log_tail()))
            channel[1] += data

    def stop(self):
        """Ends QEMU."""
        if self.qemu.poll() is None:
            os.killpg(self.qemu.pid, signal.SIGKILL)
        self.qemu.wait()


class Peers:
    """A namespace and its guests; a context manager that tears all of it down."""

    def __init__(self, name, guests=1, mtu=1500, boot_seconds=120):
        self.name = name
        self.mtu = mtu
        self.images = build()
        self.folder = tempfile.mkdtemp(prefix="converb-interop-")
        self.guests = []
        self.namespace = None
        try:
            self.namespace = Namespace("vm-%s" % name)
            self.namespace.ip_command("link", "add", "br0", "type", "bridge",
                                      "mcast_snooping", "0", "stp_state", "0", "forward_delay", "0")
            self.namespace.call("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/br0/accept_dad")
            self.namespace.ip_command("link", "set", "br0", "mtu", str(mtu),
                                      "address", "52:54:00:77:00:fe")
            self.namespace.ip_command("addr", "add", "10.77.0.1/24", "dev", "br0")
            self.namespace.ip_command("addr", "add", "fd77::1/64", "dev", "br0", "nodad")
            self.namespace.ip_command("link", "set", "br0", "up")
            deadline = time.monotonic() + boot_seconds
            for number in range(1, guests + 1):
                self.guests.append(Guest(self, number))
            # The bridge takes the smallest MTU of its ports unless it is set again.
            self.namespace.ip_command("link", "set", "br0", "mtu", str(mtu))
            for guest in self.guests:
                guest.wait_up(deadline)
        except BaseException:
            self.close()
            raise

    def image(self, name):
        """A file of the guest's image."""
        return os.path.join(self.images, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops the guests and removes the namespace."""
        for guest in self.guests:
            guest.stop()
        if self.namespace is not None:
            self.namespace.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def build():
    """Builds the guest where that has not been done; the folder of its files."""
    done = subprocess.run([os.path.join(HERE, "guest-build")], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise GuestError("the guest could not be built")
    return done.stdout.strip().splitlines()[-1]
