"""What the table of programs, the interop rows, the wire checks and the benchmarks share.

`namespace.py` makes network namespaces and runs programs in them, `stage.py` puts the built
files where every user can read them, `outcome.py` counts and prints results.
"""
