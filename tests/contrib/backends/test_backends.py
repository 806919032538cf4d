"""Back ends: code of others in a task's place, verified as schedules are, recorded, linked and replayed."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from backend_support import (
    BEYOND,
    CALLS_NOBODY,
    CONTRACT,
    CRASHES,
    MATMUL,
    NO_C,
    SIZED,
    SLOW_FAMILY,
    WRONG,
    write_library,
)
from bundle_support import edit_file, make_bundle, no_care

from autotune.bundles.bundle import Bundle
from autotune.bundles.emit import emit_bundle
from autotune.bundles.replay import replay
from autotune.compiler.lowering.steps import REQUESTED
from autotune.contrib.backends.backend import CALLS
from autotune.contrib.backends.external_code import open_backend
from autotune.contrib.backends.generators import open_generators
from autotune.contrib.backends.library import open_library
from autotune.contrib.backends.rewrites.kernels import GAPS, KERNEL_CALLS, STAND_INS
from autotune.core.errors import BundleError, MachineError, ScheduleError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.plugs.program import ExternalCode
from autotune.core.scripts.assembly import Step
from autotune.store.bundle import read_bundle
from autotune.store.store import Store
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.options import TuneOptions
from autotune.tuning.tunable import payload as open_payload
from autotune.tuning.tune import tune
from autotune.worker.loading.own_code import untrusted
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

SPEC = "matmul,m=24,n=32,k=24"
EFFORT = Effort(samples=3, seconds=0.05, sample_seconds=1e-4)
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def test_rewrites_are_named_by_what_asks_for_them():
    assert {str(each) for each in (STAND_INS, GAPS, KERNEL_CALLS)} == {str(CALLS)}
    assert {STAND_INS, GAPS, KERNEL_CALLS} <= set(REQUESTED)


def task_of(spec=SPEC):
    (task,) = partition(open_payload(spec)).tasks
    return task


def evaluate(spec, task, *configs):
    """What becomes of a back end's code for a task, by config."""
    machine = this_machine()
    with open_generators((spec,), 30) as generators, Worker(30) as worker:
        ((family,), _) = generators.families([task], machine)
        kernels = [family.kernel(task, config, machine) for config in configs or (family.default(task, machine),)]
        candidates = tuple(candidate_alone(Step(task.tag, 1, ExternalCode(code=kernel))) for kernel in kernels)
        return worker.evaluate(Job(task.payload, candidates, machine, effort=EFFORT))


def test_a_function_of_c_computes_a_task(tmp_path):
    (found,) = evaluate(write_library(tmp_path), task_of())
    assert found.outcome == "ok", found.diagnostic
    assert found.samples is not None


def test_sizes_are_passed_where_the_contract_says(tmp_path):
    contract = 'pass = ["m", "k"]\n' + CONTRACT
    (found,) = evaluate(write_library(tmp_path, SIZED, contract), task_of())
    assert found.outcome == "ok", found.diagnostic


def test_an_object_needs_no_compiler(tmp_path, monkeypatch):
    write_library(tmp_path, SIZED)
    command = ["cc", "-c", "-O2", "-fPIC", "-DN=32", str(tmp_path / "product.c"), "-o", str(tmp_path / "product.o")]
    subprocess.run(command, check=True)
    contract = CONTRACT.replace('source = "product.c"', 'object = "product.o"\npass = ["m", "k"]')
    contract = contract.replace('flags = ["-O3", "-march=native"]', "")
    spec = write_library(tmp_path, SIZED, contract)
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = evaluate(spec, task_of())
    assert found.outcome == "ok", found.diagnostic


@pytest.mark.parametrize(
    ("code", "outcome", "said"),
    [
        (WRONG, "wrong-result", "should be"),
        (BEYOND, "wrong-result", "written"),
        (CRASHES, "crashed", "in verify: SIGSEGV"),
        (CALLS_NOBODY, "jit-failed", "nobody"),
    ],
)
def test_code_that_is_wrong_is_an_outcome(tmp_path, code, outcome, said):
    (found,) = evaluate(write_library(tmp_path, code), task_of())
    assert found.outcome == outcome
    assert said in found.diagnostic


def test_what_is_wrong_never_wins(tmp_path):
    spec = write_library(tmp_path / "library", WRONG)
    with no_care(), Store.open(tmp_path / "store.journal") as store:
        tune(open_payload(SPEC), store, tmp_path / "bundle", TuneOptions(trials=3, backends=(spec,)))
        outcomes = {t.family: t.outcome for sweep in store.sweeps() for t in sweep.records.values()}
    assert outcomes["mine"] == "wrong-result"
    (record,) = read_bundle(tmp_path / "bundle").manifest.tasks.values()
    assert record.schedule == "matmul"


def test_what_does_not_compile_is_an_outcome_too(tmp_path):
    spec = write_library(tmp_path / "library", NO_C)
    with no_care(), Store.open(tmp_path / "store.journal") as store:
        tune(open_payload(SPEC), store, tmp_path / "bundle", TuneOptions(trials=3, backends=(spec,)))
        (failed,) = [t for sweep in store.sweeps() for t in sweep.records.values() if t.family == "mine"]
    assert failed.outcome == "lowering-failed"
    assert "product.c" in failed.diagnostic


@pytest.fixture(scope="module")
def won(tmp_path_factory):
    """A bundle whose task is computed by C, since the family that competes does nothing."""
    folder = tmp_path_factory.mktemp("won")
    spec = write_library(
        folder / "library", MATMUL.replace("int k = 0", "int k = FROM"), CONTRACT + "[knobs]\nFROM = [0, 1]\n"
    )
    (folder / "slow.py").write_text(SLOW_FAMILY)
    options = {"family": f"{folder / 'slow.py'}:SLOW", "backends": (spec,), "baseline": "loops"}
    return make_bundle(folder, "matmul,m=96,n=128,k=160", trials=4, **options)


def test_the_winner_of_a_task_may_be_code_of_others(won):
    bundle = read_bundle(won)
    (record,) = bundle.manifest.tasks.values()
    assert record.schedule == "mine"
    assert record.config == {"FROM": 0}
    assert "slow" in record.rivals
    (kernel,) = bundle.kernels
    assert kernel.backend == "mine"
    assert "int k = FROM" in kernel.made.source


def test_replay_runs_the_code_of_a_bundle(won):
    with no_care():
        found = replay(won)
    assert found.outcome == "ok", found.diagnostic


def test_a_bundle_of_ones_own_is_called(won):
    bundle = Bundle.read(won)
    a, b = np.random.default_rng(0).uniform(size=(96, 160)), np.random.default_rng(1).uniform(size=(160, 128))
    np.testing.assert_allclose(bundle(a.astype("f"), b.astype("f")), a @ b, rtol=1e-4)


def test_untrusted_code_stays_in_the_sandbox(won, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BundleError, match="must be made here to run in your own process"):
        Bundle.read(won)(np.zeros((96, 160), "f"), np.zeros((160, 128), "f"))
    with no_care():
        assert replay(won).outcome == "ok"


def test_code_of_ones_own_that_is_called_otherwise_is_untrusted(won):
    (kernel,) = read_bundle(won).kernels
    other = replace(kernel, types=(*kernel.types[:-1], "memref<1xf32>"))
    assert untrusted([kernel]) == ()
    assert untrusted([other]) == (other,)


def test_untrusted_code_needs_every_mechanism_of_the_sandbox(won, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("autotune.bundles.candidates.available_mechanisms", lambda: ("seccomp",))
    with pytest.raises(BundleError, match=r"in a sandbox of Landlock and seccomp.*landlock is missing"):
        replay(won)


def test_code_that_was_changed_is_refused(won, tmp_path):
    copy = shutil.copytree(won, tmp_path / "copy")
    (path,) = (copy / "kernels").glob("*.o")
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(BundleError, match="its sha256 differs"):
        read_bundle(copy)


def test_bytes_that_are_no_code_are_an_outcome_of_a_replay(won, tmp_path):
    copy = shutil.copytree(won, tmp_path / "copy")
    (path,) = (copy / "kernels").glob("*.o")
    edit_file(copy, f"kernels/{path.name}", b"\x7fELF, no more")
    with no_care():
        found = replay(copy)
    assert (found.outcome, found.verdict) == ("jit-failed", "wrong")


def test_code_is_emitted_beside_the_program_that_calls_it(won, tmp_path):
    names = {path.name for path in emit_bundle(won, "object", tmp_path)}
    assert len([name for name in names if name.startswith("autotune_kernel_mine_")]) == 1


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (lambda t: t.replace("symbol", "symbole"), "must hold .* alone, it has 'symbole'"),
        (lambda t: t.replace('"product"', '"no name"'), "must name the function as symbol"),
        (lambda t: t.replace("product.c", "nowhere.c"), "must name a file beside it, nowhere.c is none"),
        (lambda t: t.replace('op = "matmul"', 'op = "fft"'), "must compute one of matmul, batch_matmul"),
        (lambda t: t.replace('op = "matmul"', ""), r"must say in \[computes\] which op"),
        (lambda t: t + "sizes = { q = 4 }", "must bound sizes batch, m, n, k"),
        (lambda t: t + "sizes = { n = { multiple_of = 0 } }", "must bound sizes"),
        (lambda t: t + '[knobs]\n"a b" = [1]', "must give knob a b a list of values"),
        (lambda t: 'pass = ["x"]\n' + t, "must pass sizes of batch, m, n, k"),
        (lambda t: t + "[", "must be TOML"),
    ],
)
def test_a_contract_that_says_what_none_may_is_refused(tmp_path, change, law):
    spec = write_library(tmp_path, contract=change(CONTRACT))
    with pytest.raises(ScheduleError, match=law):
        open_library(spec.removeprefix("library:"))


@pytest.mark.parametrize(
    ("sizes", "why"),
    [("n = { multiple_of = 48 }", "is for n = "), ("m = 25", "is for m = 25, this has 24"), ("k = { most = 24 }", "")],
)
def test_sizes_bound_what_a_contract_covers(tmp_path, sizes, why):
    library = open_library(
        write_library(tmp_path, contract=f"{CONTRACT}sizes = {{ {sizes} }}\n").removeprefix("library:")
    )
    said = library.refuses(task_of(), this_machine())
    assert said.startswith(why)
    assert bool(said) == bool(why)


def test_a_missing_compiler_is_one_line(tmp_path, monkeypatch):
    spec = write_library(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="needs a C compiler, cc is not there; install one, or give an object"):
        open_backend.__wrapped__(spec)


def test_a_back_end_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ScheduleError, match=r"back end must be one of .*library.*; got 'nosuch'"):
        open_backend.__wrapped__("nosuch")
