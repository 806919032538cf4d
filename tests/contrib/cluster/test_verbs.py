"""The verbs of clusters: what they refuse, in one line each, and sweeps for all kinds of machines."""

import pytest

from autotune.contrib.cluster.plugin import sweep_each
from autotune.contrib.cluster.slot import Slot

SLOTS = [Slot(name, "software", "avx2", 1, 0.01, 1e-4, 1e-4) for name in ("0ff0", "92578e66")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tune", "nano", "--for", "92578e66"), "--for without --cluster must be one of"),
        (("tune", "nano", "--cluster", "somewhere"), "--cluster must be tcp://HOST:8786"),
        (("tune", "nano", "--jobs", "2", "--threads", "2"), "jobs must be 1 where programs have 2 threads; got 2"),
        (("tune", "nano", "--jobs", "2", "--cluster", "local:2"), "--jobs is of this machine"),
        (("tune", "nano", "--jobs", "4000"), "jobs must be at most"),
        (("doctor", "--cluster", "somewhere"), "--cluster must be tcp://HOST:8786"),
        (("doctor", "--cluster", "tcp://head:8786", "--noise"), "--noise is of this machine"),
        (("lab", "join", "somewhere"), "ADDRESS must be tcp://HOST:8786"),
        (("lab", "join", "sqlite:////x"), "ADDRESS must be tcp://HOST:8786"),
        (("lab", "join", "inproc://host:1"), "ADDRESS must be tcp://HOST:8786"),
        (("lab", "join", "tcp://host"), "ADDRESS must be tcp://HOST:8786"),
        (("lab", "join", "tcp://host:65536"), "ADDRESS must be tcp://HOST:8786"),
        (("doctor", "--cluster", "https://host:8786"), "--cluster must be tcp://HOST:8786"),
        (("lab", "join", "tcp://head:8786", "--slots", "0"), "slots must be from 1 to"),
    ],
)
def test_what_cannot_be_meant_is_refused(refused, arguments, words):
    refused(*arguments, words=words)


@pytest.mark.parametrize("words", [["--for", "all"], ["--for=all"]])
def test_a_sweep_for_all_is_one_command_a_kind_and_fails_as_the_worst_does(tmp_path, words):
    script = tmp_path / "tune.py"
    script.write_text(
        "import sys, pathlib\n"
        "kind = sys.argv[-1].removeprefix('--for=')\n"
        f"(pathlib.Path({str(tmp_path)!r}) / kind).write_text(' '.join(sys.argv[1:-1]))\n"
        "sys.exit(kind == '0ff0')\n"
    )
    assert sweep_each(SLOTS, [str(script), "tune", "nano", *words]) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"tune.py", "0ff0", "92578e66"}
    assert (tmp_path / "92578e66").read_text().startswith("tune nano")
