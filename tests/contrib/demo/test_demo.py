"""`autotune demo`: a small kernel, tuned; what it prints is true of what it wrote."""

import re
import shlex

import pytest
from bundle_support import no_care

from autotune.contrib.demo import verb
from autotune.core.host.machine import Roofs, this_machine
from autotune.core.stats import Interval
from autotune.reports.comparison import Comparison, Row
from autotune.reports.format import out
from autotune.store.bundle import read_bundle
from autotune.tuning.result import TuneResult


def test_it_tells_times_a_loop_and_commands_that_work(autotune, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "KERNEL", "matmul,m=24,n=32,k=16")
    monkeypatch.setattr(verb, "TRIALS", 2)
    with no_care():
        code, shown, _ = autotune("demo", "--output", "d")
    assert code == 0
    assert read_bundle(tmp_path / "d" / "bundle").payload.name == "matmul,m=24,n=32,k=16"
    is_timed = re.match(r"matmul,m=24,n=32,k=16: [\d.]+ .?s a call", shown)
    assert is_timed or shown.startswith("matmul,m=24,n=32,k=16: verified; not measurable here and now: ")
    assert bool(is_timed) == bool(re.search(r"^  numpy: .* x as long$", shown, re.M))
    assert "its hot loop, " in shown
    commands = [line.strip() for line in shown.partition("next:")[2].splitlines() if line.strip()]
    assert len(commands) == 3
    for command in commands[:2]:
        assert autotune(*shlex.split(command)[1:])[0] == 0
    assert (tmp_path / "report.html").is_file()
    for line in shown.splitlines():
        assert len(line) <= 80 or "autotune " in line, line


@pytest.mark.parametrize(("unsteady", "seconds"), [("", 1e-3), ("the core was shared", 1e-3), ("", 2.7e-3)])
def test_on_a_shared_core_it_shows_no_number_that_cannot_be(unsteady, seconds, capsys):
    machine, roofs = this_machine(), Roofs(1e11, 0.0, 0.0, 0.0, 0.0)
    row = Row("best", "ok", seconds=Interval(seconds, seconds, seconds))
    found = Comparison("p", machine, roofs, 0.01, (row,), "best", 0, unsteady=unsteady)
    result = TuneResult("p", machine, roofs, "passes", 0.1, 1e-3, 0.36, {}, None, 0.0, {}, 0, 0.0, 0.0, 0.0, 0.01)
    verb.show_times(out(), result, found)
    shown = capsys.readouterr().out
    is_quiet = not unsteady and seconds == 1e-3
    assert ("36%" in shown) == is_quiet
    assert ("not measurable here and now" in shown) != is_quiet
    assert ("2.7 times what it took alone" in " ".join(shown.split())) == (seconds == 2.7e-3)
