"""Forks of a program: each reads by a process of its own, and leaves that of the program and its folder alone."""

import multiprocessing
import os
import subprocess
import sys

from autotune.worker.bench import claims
from autotune.worker.loading.reading import reader
from autotune.worker.worker import Worker

FORKS = 3
ENDS = """
import os, sys
from autotune.worker.loading.reading import reader
assert reader().call(abs, -1) == 1
child = os.fork()
if child == 0:
    sys.exit(0)  # runs what is registered for the end, as os._exit does not
assert os.waitpid(child, 0)[1] == 0
assert reader().call(abs, -2) == 2
"""


def read(number):
    """What the process of a fork says, a few times."""
    return [reader().call(abs, -number - i) for i in range(20)]


def test_forks_have_answers_of_their_own_at_once():
    assert reader().call(abs, -1) == 1
    with multiprocessing.get_context("fork").Pool(FORKS) as pool:
        found = pool.map(read, range(0, 100 * FORKS, 100), chunksize=1)
        assert read(1000) == list(range(1000, 1020))
    assert found == [list(range(n, n + 20)) for n in range(0, 100 * FORKS, 100)]


def test_fork_that_ends_leaves_the_process_and_its_folder():
    subprocess.run([sys.executable, "-c", ENDS], check=True)


def test_fork_holds_nothing_of_a_worker():
    with Worker() as worker:
        assert worker.call(abs, -3) == 3
        pid = os.fork()
        if pid == 0:
            os._exit(bool(claims._locked or worker._process or worker._keeper._control.closed is False))
        assert os.waitpid(pid, 0)[1] == 0
        assert worker.call(abs, -4) == 4
