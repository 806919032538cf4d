"""Ctrl-C at any moment, as a terminal sends it: to the whole process group."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from autotune.cli.interrupt import ENDS

BUNDLE = Path(__file__).parents[2] / "results/icelake-3c3bf114/bundles/matmul_m64_n64_k64"
# What the console script does, and a byte once Ctrl-C is handled: before that it is the interpreter that starts.
PROGRAM = """
import os, sys
from autotune.cli import interrupt, main
def install(self, installed=interrupt.Interrupts.install):
    installed(self)
    os.write(int(sys.argv.pop()), b".")
interrupt.Interrupts.install = install
main()
"""
UNDER_WAY = "autotune: building it again"  # what `replay` says before it begins
MOMENTS = {
    ("list",): (0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8),
    ("replay", str(BUNDLE)): (0.1, 0.3, 0.6, 1, 1.5, 2, 3),
}


def interrupted(words, seconds, number=signal.SIGINT, **options):
    """Start a command and end it after a while; its exit code, stderr, and processes that stayed.

    A terminal sends SIGINT to the whole group; others are for the process alone.
    """
    ready, told = os.pipe()
    command = [sys.executable, "-c", PROGRAM, *words, str(told)]
    with subprocess.Popen(
        command,
        pass_fds=[told],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        os.close(told)
        os.read(ready, 1)
        os.close(ready)
        time.sleep(seconds)
        children = [] if process.poll() is not None else psutil.Process(process.pid).children(recursive=True)
        if process.poll() is None:
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        said = process.communicate(timeout=60)[1]
    stayed = psutil.wait_procs(children, timeout=5)[1]
    return process.returncode, said, stayed


@pytest.mark.parametrize("words", MOMENTS, ids=lambda words: words[0])
def test_ctrl_c_at_any_moment_is_one_line_and_leaves_nothing(words):
    with ThreadPoolExecutor(3) as pool:
        ends = list(pool.map(lambda seconds: interrupted(words, seconds), MOMENTS[words]))
    for code, said, stayed in ends:
        ended = [line for line in said.splitlines() if not line.startswith(UNDER_WAY)]
        assert code == 0 or (code, ended) == (130, [f"autotune: {ENDS[signal.SIGINT]}"])
        assert "Traceback" not in said
        assert not stayed
    assert ends[0][0] == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["term", "hup"])
def test_other_signals_that_end_a_command_leave_nothing_either(number, code, tmp_path):
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with ThreadPoolExecutor(3) as pool:
        words = ("replay", str(BUNDLE))
        ends = list(pool.map(lambda seconds: interrupted(words, seconds, number, env=env), (0, 0.6, 2)))
    for ended, said, stayed in ends:
        assert ended == 0 or (ended, said.splitlines()[-1]) == (code, f"autotune: {ENDS[number]}")
        assert "Traceback" not in said
        assert not stayed
    assert ends[0][0] == code
    assert not list(tmp_path.glob("autotune-worker-*"))


def test_an_interrupt_while_a_module_is_imported_waits_for_it_where_something_is_open(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.2)\nprint('whole')\n"
    )
    program = """
import subprocess, sys, time
from autotune.cli.interrupt import Interrupts
interrupts = Interrupts()
interrupts.install()
interrupts.is_loading = False
child = subprocess.Popen(["sleep", "60"])
try:
    import slow
    time.sleep(60)
except KeyboardInterrupt:
    child.kill()
    child.wait()
    print("closed")
"""
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "whole\nclosed\n", done.stderr
