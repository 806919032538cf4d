"""The front door: what `import autotune as at` gives, from a spec to a result and back to arrays."""

import doctest
import io
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import nbformat
import numpy as np
import pytest
from bundle_support import make_bundle
from nbclient import NotebookClient

import autotune as at
from autotune.core.errors import OptionError

ROOT = Path(__file__).parent.parent
DOCUMENTED = ["tuning.tunable", "core.stats", "compiler.script.apply", "reports.holdings"]
DOCUMENTED += ["tensor.dtypes", "tensor.shapes", "tensor.compiled"]
SPEC = "matmul,m=24,n=32,k=16,constant_b=1"
PROGRAM = """
import sys
import autotune as at
result = at.tune("softmax,rows=8,cols=32", trials=2, store="mine.journal", bundle="mine.bundle", cold=True)
print(result.bundle, len(at.trials("mine.journal")))
"""
CELL = """
from autotune.core.progress import watching
from autotune.core.trial import Trial
with watching("nano", 40) as line:  # as `at.tune` has it
    line.note("sampler auto")
    line.trial(Trial("matmul", 0, {}, "ok", "k", "matmul"), 17, 33.1e-9)
    line.forecast(72.0, 57.8e-6)
"""
SILENTLY = """
sys.stderr.write("silent from here on")
at.tune("softmax,rows=8,cols=32", trials=3, store="mine.journal", bundle="mine.bundle", cold=True, listener=at.SILENT)
"""


@pytest.fixture(scope="module")
def payload():
    return at.payload(SPEC)


@pytest.fixture(scope="module")
def task(payload):
    (task,) = at.tasks(payload)
    return task


@pytest.fixture(scope="module")
def function(payload):
    return at.compile(payload)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return at.Bundle.read(make_bundle(tmp_path_factory.mktemp("bundle"), SPEC))


def arrays_of(payload, seed=0):
    return payload.make_inputs(seed)


def test_importing_it_imports_no_mlir_and_little_else():
    heavy = ("mlir", "optuna", "pandas", "matplotlib", "scipy.stats")
    code = f"import sys, autotune as at; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_every_name_is_there_documented_and_listed():
    assert set(at.__all__) <= set(dir(at))
    for name in at.__all__:
        assert getattr(at, name).__doc__ or isinstance(getattr(at, name), tuple), name


def test_no_name_is_one_of_a_room():
    packages = {path.name for path in (ROOT / "autotune").iterdir()} | {"registry"}
    assert not set(at.__all__) & packages


def test_what_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="tunes"):
        at.tunes  # noqa: B018


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_run(name):
    found = doctest.testmod(import_module(f"autotune.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_plain_script_without_a_guard_tunes_with_progress_on_a_terminal_unless_it_is_to_be_silent(tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM + SILENTLY)
    quickly = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    command, (ours, theirs) = [sys.executable, "mine.py"], os.openpty()
    shown = io.StringIO()
    reader = threading.Thread(target=read_all, args=(ours, shown))
    reader.start()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=tmp_path, env=quickly, check=False
        )
    finally:
        os.close(theirs)
        reader.join()
    said, _, silent = shown.getvalue().partition("silent from here on")
    assert done.stdout == "mine.bundle 2\n", said
    assert "2/2" in said
    assert re.search(r"whole .*~[0-9]+ s left", said)
    assert silent == ""


def read_all(terminal, into):
    """Read what a terminal shows until whoever writes to it has closed it."""
    with suppress(OSError):
        while found := os.read(terminal, 4096):
            into.write(found.decode(errors="replace"))
    os.close(terminal)


def test_a_notebook_shows_progress_and_keeps_the_notes_alone():
    book, shown = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)]), []
    client = Shown(book, kernel_name="python3")
    client.shown = shown
    client.execute()
    assert shown[0] == "sampler auto\nnano; 0 s"
    assert re.fullmatch(
        r"sampler auto\nnano: ok, matmul; 17/40; best 33.1 ns, whole 57.8 us; . s; ~7[12] s left", shown[-2]
    )
    (line,) = book.cells[0].outputs
    assert line["data"] == {"text/plain": "sampler auto"}


class Shown(NotebookClient):
    """Executes a notebook as nbmake does, and keeps what its outputs showed on the way."""

    def process_message(self, message, cell, cell_index):
        if "data" in message["content"]:
            self.shown.append(message["content"]["data"].get("text/plain", ""))
        return super().process_message(message, cell, cell_index)


def test_parameters_may_be_named_and_payloads_pass(payload):
    assert at.payload("matmul", m=24, n=32, k=16, constant_b=1).sha256 == payload.sha256
    assert at.payload(payload) is payload


def test_task_knows_its_families(task):
    assert task.count == 1
    assert task.family().name == "matmul"
    assert task.family("vectorize").default()
    with pytest.raises(
        at.AutotuneError, match=r"family must be one that covers .*: matmul, vectorize, affine; got 'psychic'"
    ):
        task.family("psychic")


def test_objects_that_people_hold_are_a_line_and_a_table(payload, task):
    family = task.family()
    for held in (payload, task, family, family.space):
        assert repr(held).startswith("<")
        assert len(repr(held)) < 1000
        assert "\n" not in repr(held)
        assert held._repr_html_().startswith("<table>")
        assert "<caption>" in held._repr_html_()
    assert "unroll_k" in family.space._repr_html_()
    assert "matmul, vectorize" in task._repr_html_()
    evil = replace(payload, name="<script>alert(1)</script>")
    assert "&lt;script&gt;" in evil._repr_html_()
    assert "<script>" not in evil._repr_html_()
    bundle = at.Bundle.read(ROOT / "results/icelake-3c3bf114/bundles/matmul_m64_n64_k64")
    assert "64" in bundle._repr_html_()


def test_script_of_a_config_is_a_transform_script(task):
    text = task.family().script({"unroll_k": 2})
    assert "transform.named_sequence @__transform_main" in text
    assert text == task.family().script(task.family().default(unroll_k=2))


def test_measured_candidates_have_a_row_each_whatever_becomes_of_them(task):
    family = task.family()
    wrong = at.script("transform.structured.psychic %op")
    whole = at.script(family.script({"pack_b": "none"}))
    frame = at.measure(task, [family.default(), {"unroll_k": 2}, wrong, whole], samples=5, seconds=0.2)
    assert list(frame["candidate"]) == ["default", "unroll_k=2", "script", "script"]
    assert list(frame["outcome"]) == ["ok", "ok", "transform-failed", "ok"]
    assert (frame["us"].notna() == (frame["outcome"] == "ok")).all()
    assert (frame["max_error"].dropna() < 1e-4).all()
    assert (frame["of_roof"].dropna() > 0).all()


def test_config_that_breaks_a_law_is_an_outcome_and_not_compiled(task):
    space = task.family().space
    values = {knob.name: knob.values for knob in space.knobs}
    default = task.family().default()
    unlawful = next(
        {name: value}
        for name in values
        for value in values[name]
        if space.broken_constraint({**default, name: value}) is not None
    )
    (row,) = at.measure(task, [unlawful]).to_dict("records")
    assert row["outcome"] == "constraint"
    assert row["diagnostic"] == space.broken_constraint({**default, **unlawful})


@pytest.mark.parametrize("config", [{"colour": 3}, {"tile_m": -1}])
def test_config_outside_the_space_is_an_error(task, config):
    with pytest.raises(at.AutotuneError, match=next(iter(config))):
        at.measure(task, [config])


def test_called_function_agrees_with_the_reference(payload, function):
    arrays = arrays_of(payload)
    (expected,) = payload.reference(**arrays)
    np.testing.assert_allclose(function(**arrays), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(function(*arrays.values()), function(**arrays))


def test_what_a_function_computed_can_be_verified(payload, function):
    arrays = arrays_of(payload)
    got, expected = function(**arrays), payload.reference(**arrays)
    assert at.verify(payload, [got], expected).outcome == "ok"
    got[1, 2] += 1
    assert "c[1, 2] is" in at.verify(payload, [got], expected).diagnostic
    with pytest.raises(at.AutotuneError, match="an array each of c, in a list; got 24 and 1"):
        at.verify(payload, got, expected)


def test_two_sets_of_times_can_be_compared():
    slow, fast = [2.0 + 0.01 * i for i in range(20)], [1.0 + 0.01 * i for i in range(20)]
    assert 1.8 < at.ratio_interval(slow, fast).low < 2.1
    assert at.is_different(slow, fast, floor=0.02)
    assert not at.is_different(slow, slow, floor=0.02)


def test_session_takes_specs_and_needs_no_folder(tmp_path, monkeypatch, payload):
    monkeypatch.chdir(tmp_path)
    session, arrays = at.Session(), arrays_of(payload)
    function = session.load(SPEC)
    assert session.load(payload) is function
    (got,) = function(a=arrays["a"])
    assert at.verify(payload, [got], payload.reference(**{**session.kept, "a": arrays["a"]})).outcome == "ok"
    assert list(tmp_path.iterdir()) == []


def test_changed_weight_is_stored_again(payload, function):
    first, second = arrays_of(payload), arrays_of(payload, seed=1)
    assert any(argument.role == "weight" for argument in payload.arguments)
    function(**first)
    second["b"][...] = first["b"]
    second["b"][3, 4] += 1
    np.testing.assert_allclose(function(**second), payload.reference(**second)[0], rtol=1e-4, atol=1e-4)


def test_result_is_not_overwritten_by_the_next_call(payload, function):
    first = function(**arrays_of(payload))
    kept = first.copy()
    function(**arrays_of(payload, seed=1))
    np.testing.assert_array_equal(first, kept)


A, B = np.zeros((24, 16), np.float32), np.zeros((16, 32), np.float32)


@pytest.mark.parametrize(
    ("arrays", "named", "said"),
    [
        ((A,), {}, "missing: b"),
        ((A, B, A), {}, "takes 2 arrays"),
        ((A,), {"a": A, "b": B}, "twice: a"),
        ((), {"a": A, "b": B, "d": A}, "unknown: d"),
        ((B, B), {}, r"a must have shape \(24, 16\), got \(16, 32\)"),
        ((A.astype(complex), B), {}, "a must hold real numbers, got complex128"),
        (("text", B), {}, "a must have shape"),
    ],
)
def test_wrong_arrays_are_refused_before_anything_runs(function, arrays, named, said):
    with pytest.raises(at.AutotuneError, match=said):
        function(*arrays, **named)


def test_indices_out_of_range_are_refused():
    lookup = at.compile("embedding,rows=4,cols=8,vocab=10")
    arrays = arrays_of(lookup.payload)
    name = next(a.name for a in lookup.payload.arguments if a.dtype.startswith("i"))
    for wrong in (-1, 10):
        with pytest.raises(at.AutotuneError, match=f"{name} must be from 0 to 9, got {wrong}"):
            lookup(**{**arrays, name: np.full_like(arrays[name], wrong)})


def test_states_begin_as_zeros_and_come_back():
    step = at.compile("gpt,d_model=16,heads=2,d_ff=32,vocab=20,layers=1,positions=8,function=decode,position=0")
    arrays = {a.name: v for a, v in zip_arguments(step.payload) if a.role != "state"}
    first = step(**arrays)
    assert set(first) == {a.name for a in step.payload.written}
    states = {a.name: first[a.name] for a in step.payload.arguments if a.role == "state"}
    assert any(array.any() for array in states.values())
    again = step(**arrays)
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array)


def zip_arguments(payload):
    values = payload.make_inputs(0)
    return [(a, values[a.name]) for a in payload.arguments if a.role != "output"]


def test_bundle_tells_what_it_is_and_computes(bundle):
    assert SPEC in repr(bundle)
    assert [record.count for record in bundle.tasks.values()] == [1]
    assert bundle.differences == ()
    arrays = arrays_of(bundle.payload)
    np.testing.assert_allclose(bundle(**arrays), bundle.payload.reference(**arrays)[0], rtol=1e-4, atol=1e-4)


def test_bundle_is_replayed_and_emitted(bundle, tmp_path):
    assert bundle.replay().is_right
    assert [path.suffix for path in bundle.emit(tmp_path)] == [".o", ".h"]


def test_stages_of_a_task_are_those_of_its_candidate(task):
    assert at.show(task) == task.family().script({})
    assert "scf.for" in at.show(task, "bufferized", {"unroll_k": 2})
    with pytest.raises(at.AutotuneError, match="stage of a task must be one of"):
        at.show(task, "tasks")
    with pytest.raises(at.AutotuneError, match="a candidate is of one task"):
        at.show(SPEC, "schedule", {"unroll_k": 2})


def test_a_script_that_is_no_text_is_refused():
    with pytest.raises(OptionError, match="text of a script must be a str, got bytes; decode it"):
        at.script(b"transform.yield")


def test_the_command_is_found_where_no_folder_of_programs_is(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "autotune", "list", "nothing"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("autotune: Invalid value: NAME must be a kind")
