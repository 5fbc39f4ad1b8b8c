"""What nobody acknowledges must not be lost on the way either."""
import os

from ask import counters
from harness.outcome import Failure
from . import Scenario

# `make test-all` takes the time for as many as a person would.
RUNS = 10 if os.environ.get("CONVERB_TEST_ALL") else 2
# As the kernel counts it: what it gives where nobody raised the limit.
SMALL_BUFFER = "212992"


def nothing_is_lost(bench):
    """16 queue pairs send as fast as they can, again and again; no receive buffer overflows. Every
    second time the buffers are small."""
    device = "roce_" + bench.topology.netdev
    for number in range(RUNS):
        for service in ("UD", "UC"):
            for buffer in ("", SMALL_BUFFER):
                environment = {"CONVERB_RECEIVE_BUFFER": buffer} if buffer else {}
                name = "%s-%d%s-" % (service, number, "-small" if buffer else "")
                bench.pair(["ib_send_bw", "-c", service, "-s", "4096", "-n", "20000", "-q", "16"],
                           timeout=60, name=name, environment=environment)
                counted = counters(bench, bench.topology.server, device, name + "devices")
                received = sum(value for key, value in counted.items()
                               if key.endswith("received_packets"))
                lost = sum(value for key, value in counted.items() if "overflow" in key)
                if received < 20000:
                    raise Failure("%s: %d packets were counted: %r" % (name, received, counted))
                if lost:
                    raise Failure("%s: %d packets were lost to a full buffer" % (name, lost))


SCENARIOS = [
    Scenario("16 queue pairs send unacknowledged, again and again", "lo veth9000", nothing_is_lost,
             exclusive=True),
]
