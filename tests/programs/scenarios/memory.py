"""Memory that changes while it is read."""
import time

from ask import counters
from harness.outcome import Failure
from . import Scenario


def rewritten_while_read(bench):
    """100,000 READs of 4 KiB that a thread rewrites all the time: no bad CRC, nothing resent."""
    space = bench.topology.server
    # An idle member keeps the agent, and with it the counters, from the first packet to the last.
    member = bench.start(space, ["ibv_rc_pingpong", "-g", "0"], "member")
    bench.listening(space, 18515, member, time.monotonic() + 15)
    device = "roce_" + bench.topology.netdev
    before = counters(bench, space, device, "before")
    program = bench.start(space, ["hot_read"], "program")
    bench.finish(program, time.monotonic() + 90)
    after = counters(bench, space, device, "after")
    if after.get("received_packets", 0) - before.get("received_packets", 0) < 100000:
        raise Failure("the packets were not counted: %r" % after)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    # A probe asks after a tail that is late, as it is whenever a busy machine lets the target
    # wait; it is counted as such, and not among the packets that were sent again for a loss.
    for name in ("dropped_bad_icrc", "sequence_naks_sent", "ack_timeouts",
                 "retransmitted_packets"):
        if grown[name]:
            raise Failure("%s grew by %d: %r" % (name, grown[name], grown))


SCENARIOS = [Scenario("memory rewritten while it is read", "lo", rewritten_while_read)]
