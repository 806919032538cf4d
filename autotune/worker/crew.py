"""A crew: workers of this machine that search together. All compile and verify at once; one at a time measures.

Each is an isolated process with limits of its own, so that one that crashes, hangs or eats memory takes no other with
it. It compiles a candidate as one call and times it as the next; between them it waits for the measuring core, and no
limit of time runs.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread

from autotune.core.evaluator import Evaluation, Job, TimeLimits
from autotune.core.host.closing import Closing
from autotune.worker.bench.drift import Drift
from autotune.worker.bench.evaluate import prepare, time_waiting
from autotune.worker.bench.measuring_core import MeasuringCore, this_process_on
from autotune.worker.isolation.answers import evaluations
from autotune.worker.isolation.keeper import IsolatedProcess
from autotune.worker.isolation.limits import worker_memory
from autotune.worker.isolation.process import Call, Limits
from autotune.worker.worker import Worker

LEAST_SECONDS = 1.0  # to time what was compiled, however long that took
CLOSE_SECONDS = 0.05  # between looks whether a thread has heard that its process is gone


class CrewWorker(Worker):
    """A worker that measures only while it has the measuring core."""

    def __init__(self, seconds: float, memory_bytes: int, core: MeasuringCore, drift: Drift) -> None:
        """Start a worker.

        Args:
            seconds: Seconds that a job may take before it is stopped, besides its wait for the core.
            memory_bytes: Most address space of the process.
            core: Core that it measures on.
            drift: Drift of that core.
        """
        self._core = core
        super().__init__(seconds, memory_bytes, cores=core.others, drift=drift)

    def _try(self, job: Job, limits: Limits, time_limits: TimeLimits) -> list[Evaluation] | Evaluation:
        for _ in range(2):
            begun = time.monotonic()
            built = self._call(Call(prepare, job, limits), time_limits)
            if not isinstance(built, list) or self._process is None:
                return built
            if all(each.outcome != "ok" for each in evaluations(built, len(job.candidates), timed=False)):
                return built
            left = max(LEAST_SECONDS, time_limits.seconds - (time.monotonic() - begun))
            with self._core.hold(self._process.pid):
                call = Call(time_waiting, self._drift.quiet, limits)
                found = self._call(call, replace(time_limits, seconds=left))
            if isinstance(found, Evaluation):
                phases = {**built[0].phases, **found.phases}
                return replace(found, phases=phases)
            if found:
                return found
        return Evaluation("crashed", diagnostic="its process was killed from outside while it was measured, twice")

    def _ready_process(self) -> IsolatedProcess:
        process = super()._ready_process()
        self._core.enter(process.pid)
        return process

    def _drop_cell(self) -> None:
        if self._process is not None:
            self._core.leave(self._process.pid)
        super()._drop_cell()


class Crew(Closing):
    """Evaluates as many jobs at once as it has cores: `autotune.core.evaluator.Slots`; use as a context manager.

    Attributes:
        core: Core that is measured on, and who may run where.
    """

    is_ordered = False

    def __init__(self, cores: Sequence[int], seconds: float) -> None:
        """Start a worker for each core.

        Args:
            cores: CPUs of its own, two at least; the last is measured on.
            seconds: Seconds that a job may take before it is stopped.
        """
        self.core = MeasuringCore(cores)
        self._asked: SimpleQueue[tuple[int, Job] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, list[Evaluation] | BaseException]] = SimpleQueue()
        self._submitted = 0
        drift, memory = Drift(), worker_memory(len(cores))
        with this_process_on(self.core.others), ExitStack() as stack:
            self._workers = [
                stack.enter_context(CrewWorker(seconds, memory, self.core, drift)) for _ in self.core.cores
            ]
            self._close = stack.pop_all().close
        self._threads = [Thread(target=self._work, args=(each,), daemon=True) for each in self._workers]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def searching(self) -> Iterator["Crew"]:
        """The crew, while this process keeps off the measuring core, too; it is closed when the block ends."""
        with this_process_on(self.core.others), self:
            yield self

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for _ in self._threads:
            self._asked.put(None)
        for thread, worker in zip(self._threads, self._workers, strict=True):
            while True:
                thread.join(CLOSE_SECONDS)
                if not thread.is_alive():
                    break
                worker.kill()
        self._close()

    def count(self) -> int:
        """As many as there are workers."""
        return len(self._workers)

    def submit(self, job: Job) -> int:
        """Have the next worker that is free do a job; gives its number."""
        self._submitted += 1
        self._asked.put((self._submitted, job))
        return self._submitted

    def wait(self) -> tuple[int, list[Evaluation]]:
        """The number of a job that is done, and the outcome of its candidates.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        number, answer = self._done.get()
        if isinstance(answer, BaseException):
            raise answer
        return number, answer

    def _work(self, worker: Worker) -> None:
        """Do jobs until there are no more. Runs in a thread for each worker."""
        while (asked := self._asked.get()) is not None:
            number, job = asked
            answer: list[Evaluation] | BaseException
            try:
                answer = worker.evaluate(job)
            except BaseException as error:  # raised again in the waiting thread
                answer = error
            self._done.put((number, answer))
