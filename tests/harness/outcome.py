"""Counts results, prints them as they come, and keeps what a failed test left behind."""
import json
import os
import re
import shutil
import sys
import threading
import time

from .stage import ROOT


class Failure(Exception):
    """A test did not hold; the text says what was expected and what was seen."""


class Outcome:
    """The results of one run."""

    def __init__(self, suite, total, as_json=False, keep=None):
        self.suite = suite
        self.total = total
        self.as_json = as_json
        self.keep = keep or os.path.join(
            os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "failures", suite)
        shutil.rmtree(self.keep, ignore_errors=True)
        self.results = []
        self.lock = threading.Lock()
        self.begin = time.monotonic()

    def say(self, text):
        """Prints to people: standard error when standard output carries JSON."""
        print(text, file=sys.stderr if self.as_json else sys.stdout, flush=True)

    def record(self, name, seconds, failure=None, details=None, folder=None, note=""):
        """Takes the result of one test. `details` are printed when it failed, and the files of
        `folder` are kept."""
        with self.lock:
            self.results.append({"name": name, "seconds": round(seconds, 2), "failure": failure,
                                 "note": note})
            self.say("%s %4d/%d %6.1f s  %s%s" % ("FAIL" if failure else "ok  ",
                                                 len(self.results), self.total, seconds, name,
                                                 "  (%s)" % note if note else ""))
            if not failure:
                return
            self.say(indent(failure))
            if details:
                self.say(indent(details))
            if folder:
                kept = os.path.join(self.keep, re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:120])
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                self.say(indent("all of its output: " + kept))

    @property
    def failed(self):
        """How many failed."""
        return sum(1 for result in self.results if result["failure"])

    def close(self):
        """Prints the closing lines; the exit status."""
        failed = self.failed
        passed = len(self.results) - failed
        missing = self.total - len(self.results)
        if missing:
            self.say("%d of %d tests of %s did not run" % (missing, self.total, self.suite))
        if failed:
            self.say("\nfailed:")
            for result in self.results:
                if result["failure"]:
                    self.say("  %s: %s" % (result["name"], result["failure"].splitlines()[0]))
        if self.as_json:
            print(json.dumps({"suite": self.suite, "passed": passed, "failed": failed + missing,
                              "seconds": round(time.monotonic() - self.begin, 1),
                              "results": self.results}, indent=1))
        else:
            self.say("%s: %.0f s" % (self.suite, time.monotonic() - self.begin))
            self.say("%d passed, %d failed" % (passed, failed + missing))
        return 1 if failed or missing or not self.results else 0


def indent(text):
    """The text as lines of a report."""
    return "\n".join("     | " + line for line in text.rstrip().splitlines())


def tail(text, lines=30):
    """The last lines of a text."""
    rows = text.rstrip().splitlines()
    if len(rows) > lines:
        rows = ["... (%d lines before)" % (len(rows) - lines)] + rows[-lines:]
    return "\n".join(rows)
