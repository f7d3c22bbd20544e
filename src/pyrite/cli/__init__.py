"""The command line: verbs over the Python interface. Each verb imports only what it needs."""

import time

ENTERED = time.perf_counter()  # of `pyrite.cli.timings`: the interpreter is there
