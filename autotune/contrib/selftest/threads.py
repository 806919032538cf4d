"""Self-test of threads: an intentional data race is detected, and parallel schedules have none."""

from autotune.compiler.codegen.openmp import usable_threads
from autotune.compiler.passes.pipelines import tail
from autotune.contrib.selftest.figures import Figure, product_task
from autotune.contrib.selftest.stress import Stress, count_wrong, racing_payload
from autotune.core.candidate import Candidate, Claim
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import write_step
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_alone
from autotune.worker.worker import Worker

THREADS = 2
RUNS = 1000
STEPS = 1 << 16  # increments per call, enough that a second thread starts before the call ends


def check_threads() -> list[Figure]:
    """Call a program with a race and one without repeatedly; skip the check if only one thread is usable."""
    if usable_threads(THREADS) < THREADS:
        return []
    with Worker(threads=THREADS) as worker:
        raced = stress(Claim(racing_payload(STEPS), Candidate(None, tail(THREADS))), worker)
        right = stress(product_claim(), worker)
    detail = f"of {RUNS} calls of {THREADS} threads that add to one number"
    return [
        Figure("calls in which a race shows", raced, "above 0", raced > 0, detail),
        Figure("calls in which threads that share a product are wrong", right, "0", right == 0, f"of {RUNS} calls"),
    ]


def product_claim() -> Claim:
    """Return a matrix product that is parallelized over `THREADS` threads."""
    task, machine = product_task(), this_machine(THREADS)
    family = family_for(task)
    if family is None:
        raise LookupError(f"a family must cover {task.tag}")
    space, default = family.space(task, machine), family.default(task, machine)
    shared = [{**default, name: THREADS} for name in ("pieces_n", "pieces_m")]
    config = next((config for config in shared if space.broken_constraint(config) is None), default)
    return Claim(task.payload, candidate_alone(write_step(task, family, config, machine, alone=True), THREADS))


def stress(claim: Claim, worker: Worker) -> int:
    """Return the number of wrong calls of a program; all of them if its process fails."""
    wrong = worker.call(count_wrong, Stress(claim, RUNS))
    return RUNS if isinstance(wrong, Evaluation) else wrong
