"""Tests of programs that do not fit into a row: each module has a list `SCENARIOS`."""


class Scenario:
    """A test: `body` gets a `pair.Bench` and raises `harness.outcome.Failure`."""

    def __init__(self, name, topologies, body, exclusive=False, two_users=False):
        self.name = name
        self.topologies = topologies.split()
        self.body = body
        self.exclusive = exclusive
        # Needs a user beside the one that programs run as, which only root can have.
        self.two_users = two_users
