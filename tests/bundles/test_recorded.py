"""What `at.compile` gives is what the import recorded, and a default schedule that does not compile costs one task."""

import numpy as np
import pytest
from import_support import import_product

import autotune as at
from autotune.bundles import call
from autotune.core.errors import CompileError
from autotune.core.listener import NoteKeeper
from autotune.core.plugs.imported import ORACLE
from autotune.tuning.candidates import default_candidate


def test_a_model_that_computes_something_else_is_not_called(tmp_path):
    model = import_product(tmp_path)
    with np.load(model / ORACLE) as file:
        recorded = dict(file)
    recorded["result/0/0"] *= 1.02
    np.savez(model / ORACLE, **recorded)
    with pytest.raises(
        CompileError, match=r"must give what its import recorded, y differs: by up to .* 0\.005 of which"
    ):
        at.compile(str(model))


def test_it_is_called_where_that_is_asked_for(tmp_path):
    model, apart = import_product(tmp_path), import_product(tmp_path, "apart")
    for folder, elements in ((model, slice(None)), (apart, slice(1))):
        with np.load(folder / ORACLE) as file:
            recorded = dict(file)
        recorded["result/0/0"][0, elements] *= 1.2
        np.savez(folder / ORACLE, **recorded)
    x = np.ones((4, 8), np.float32)
    with pytest.raises(CompileError, match="verify=False"):
        at.compile(str(model))
    with pytest.raises(CompileError):
        at.compile(str(apart))  # one of 64 elements is more than rounding decides
    assert np.array_equal(at.compile(str(model), verify=False)(x), at.compile(str(apart), verify=False)(x))


def test_a_result_of_another_shape_is_not_given(tmp_path):
    model = import_product(tmp_path)
    with np.load(model / ORACLE) as file:
        recorded = dict(file)
    recorded["result/0/0"] = recorded["result/0/0"][:, :15]
    np.savez(model / ORACLE, **recorded)
    with pytest.raises(CompileError, match=r"y differs: its shape must be \(4, 15\), it is \(4, 16\)"):
        at.compile(str(model))


def test_a_task_whose_default_does_not_compile_becomes_plain_loops(monkeypatch):
    payload = at.payload("gpt,d_model=12,heads=3,d_ff=20,vocab=21,seq=9,layers=1")
    broken = []

    def refusing(payload, candidate, *, compile=call.compile_candidate):
        if candidate.script is not None and "softmax" not in payload.name and "matmul_9x36x12" in candidate.script:
            broken.append(payload.name)
            raise CompileError("transform", "cannot be vectorized")
        return compile(payload, candidate)

    monkeypatch.setattr(call, "compile_candidate", refusing)
    keeper = NoteKeeper()
    function = call.compile_payload(payload, listener=keeper)
    assert len(broken) == 2  # the whole, then the task alone
    assert [note for note in keeper.notes if "does not compile (cannot be vectorized); plain lowering instead" in note]
    inputs = payload.make_inputs(0)
    given = {name: array for name, array in inputs.items() if name in {a.name for a in payload.arguments}}
    assert np.allclose(function(**given), payload.reference(**inputs)[0], atol=1e-4)


def test_defaults_that_compile_alone_and_not_together_leave_plain_loops(monkeypatch):
    payload, compiled = at.payload("softmax,rows=3,cols=5"), call.compile_candidate

    def refusing(of, candidate):
        if of.name == payload.name and candidate.script is not None:
            raise CompileError("bufferize", "cannot avoid a conflict")
        return compiled(of, candidate)

    monkeypatch.setattr(call, "compile_candidate", refusing)
    keeper = NoteKeeper()
    function, inputs = call.compile_payload(payload, listener=keeper), payload.make_inputs(0)
    assert [note for note in keeper.notes if "not together (cannot avoid a conflict); plain lowering instead" in note]
    np.testing.assert_allclose(function(*inputs.values()), payload.reference(**inputs)[0], atol=1e-6)


def test_what_does_not_compile_at_all_is_said(monkeypatch):
    def refusing(payload, candidate):
        raise CompileError("transform", "nothing compiles")

    monkeypatch.setattr(call, "compile_candidate", refusing)
    with pytest.raises(CompileError, match="nothing compiles"):
        at.compile("softmax,rows=3,cols=5")


def test_the_default_is_what_is_compiled_where_it_compiles():
    payload, machine = at.payload("softmax,rows=3,cols=5"), at.this_machine()
    parts = call.partition(payload)
    assert call.compilable_default(parts, machine, NoteKeeper()) == default_candidate(parts, machine)
