"""Puts the built files where every user can read them.

A checkout may lie in a folder that other users cannot enter, and the tests run programs as uids
that own nothing. The stage has the layout of `make install`.
"""
import os
import shutil
import stat
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = "libconverb_verbs.so"
# The names that programs ask for; all of them are links to the one library.
LINKS = ["libibverbs.so.1", "libibverbs.so"]


def default_binaries():
    """Where `cargo build --release` leaves its files."""
    return os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"),
                        "release")


class Stage:
    """A copy of the command and the library; a context manager that removes it. Without
    `required` the folders are there but nothing is in them."""

    def __init__(self, binaries=None, required=True):
        binaries = binaries or default_binaries()
        files = {"converb": "bin/converb", LIBRARY: "lib/" + LIBRARY}
        for name in files if required else ():
            if not os.path.exists(os.path.join(binaries, name)):
                raise SystemExit("%s is not there: run `make build` first, or say --binaries DIR"
                                 % os.path.join(binaries, name))
        self.folder = tempfile.mkdtemp(prefix="converb-stage-")
        os.chmod(self.folder, 0o755)
        check_reachable(self.folder)
        for path in ("bin", "lib", "lib/converb"):
            os.mkdir(os.path.join(self.folder, path))
        for name, inside in files.items():
            if required:
                shutil.copy(os.path.join(binaries, name), self.path(inside))
                os.chmod(self.path(inside), 0o755)
        for name in LINKS:
            os.symlink("../" + LIBRARY, self.path("lib/converb/" + name))

    def path(self, inside):
        """A path inside the stage."""
        return os.path.join(self.folder, inside)

    @property
    def converb(self):
        """The command."""
        return self.path("bin/converb")

    def environment(self):
        """What programs find in their environment: little, and the same for everyone."""
        search = self.path("bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        kept = {name: value for name, value in os.environ.items()
                if name.startswith("CONVERB_") or name in ("RUST_BACKTRACE", "LD_DEBUG")}
        kept.update({"PATH": search, "HOME": "/", "LANG": "C.UTF-8"})
        return kept

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def check_reachable(folder):
    """Stops when another user could not enter the folder."""
    while True:
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            raise SystemExit("%s is closed to other users, and the tests run programs as some: "
                             "set TMPDIR to a folder that all can enter, such as /tmp" % folder)
        if folder == "/":
            return
        folder = os.path.dirname(folder)
