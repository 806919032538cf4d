"""TVM as a back end: what it makes of tasks is right, alone and in the whole; where it is missing, that is a line."""

from importlib.util import find_spec

import pytest

from autotune.compiler.passes.pipelines import TAIL
from autotune.contrib.backends.external_code import open_backend
from autotune.contrib.backends.generators import open_generators
from autotune.core.candidate import Candidate
from autotune.core.errors import MachineError, ScheduleError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.plugs.program import ExternalCode
from autotune.core.scripts.assembly import Step, assemble, kernels_of
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.tunable import payload as open_payload
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

EFFORT = Effort(samples=3, seconds=0.05, sample_seconds=1e-4)
SPECS = (
    "matmul,m=24,n=32,k=24",
    "batch_matmul,batch=2,m=9,n=16,k=12",
    "softmax,rows=8,cols=32",
    "layer_norm,rows=8,cols=32",
    "gelu,rows=8,cols=32",
    "attention,heads=2,seq=16,d=8",
)
NANO = "gpt,layers=2,d_model=16,heads=2,seq=8,vocab=32"
needs_tvm = pytest.mark.skipif(find_spec("tvm") is None, reason="the extra tvm is not installed")


@pytest.mark.skipif(find_spec("tvm") is not None, reason="TVM is installed")
def test_without_tvm_a_line_says_what_to_install():
    with pytest.raises(MachineError, match=r"needs apache-tvm, it is not installed; .*pip install .*\[tvm\]'"):
        open_backend.__wrapped__("tvm")


def test_it_takes_no_argument():
    with pytest.raises(ScheduleError, match=r"back end tvm takes no argument, got 'cuda'; give tvm alone"):
        open_backend.__wrapped__("tvm:cuda")


@pytest.fixture(scope="module")
def generators():
    with open_generators(("tvm",), 100) as opened:
        yield opened


@needs_tvm
@pytest.mark.parametrize("spec", SPECS)
def test_what_tvm_makes_of_a_task_is_right(generators, spec):
    machine = this_machine()
    (task,) = partition(open_payload(spec)).tasks
    ((family,), _) = generators.families([task], machine)
    assert family.offers[task.tag].refusal == ""
    kernel = family.kernel(task, family.default(task, machine), machine)
    with Worker(30) as worker:
        candidates = (candidate_alone(Step(task.tag, 1, ExternalCode(code=kernel))),)
        (found,) = worker.evaluate(Job(task.payload, candidates, machine, effort=EFFORT))
    assert found.outcome == "ok", found.diagnostic


@needs_tvm
def test_a_whole_of_which_tvm_computes_what_it_covers_is_right(generators):
    machine, payload = this_machine(), open_payload(NANO)
    parts = partition(payload)
    ((family,), _) = generators.families(parts.tasks, machine)
    covered = [task for task in parts.tasks if family.covers(task)]
    steps = [
        Step(task.tag, task.occurrences, ExternalCode(code=family.kernel(task, family.default(task, machine), machine)))
        for task in covered
    ]
    whole = Candidate(assemble(steps), TAIL, parts.payload.text, kernels=kernels_of(steps))
    with Worker(60) as worker:
        (found,) = worker.evaluate(Job(payload, (whole,), machine, effort=EFFORT))
    assert len(covered) > 4
    assert found.outcome == "ok", found.diagnostic
    assert found.buffers is not None
    assert found.buffers.others == 0, "a kernel's operands lie in the arena, as those of any op do"
