"""Pool: parallel workers on one machine. All compile and verify concurrently; only one measures at a time.

Each worker is an isolated process with its own limits, so a crash, a hang or an out-of-memory kill affects no other
worker. It compiles a candidate in one call and times it in the next; in between it waits for the measuring core, and
no time limit applies to that wait.
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

LEAST_SECONDS = 1.0  # left for timing, however long the compilation took
CLOSE_SECONDS = 0.05  # interval at which `close` checks whether a thread has noticed the end of its process


class PoolWorker(Worker):
    """A worker that measures only while it holds the measuring core."""

    def __init__(self, seconds: float, memory_bytes: int, core: MeasuringCore, drift: Drift) -> None:
        """Start a worker.

        Args:
            seconds: Time limit of a job in seconds, not counting the wait for the core.
            memory_bytes: Limit of the process's address space, in bytes.
            core: Core that the worker measures on.
            drift: Drift of that core.
        """
        self._core = core
        super().__init__(seconds, memory_bytes, cores=core.others, drift=drift)

    def _try(self, job: Job, limits: Limits, time_limits: TimeLimits) -> list[Evaluation] | Evaluation:
        for _ in range(2):
            start = time.monotonic()
            built = self._call(Call(prepare, job, limits), time_limits)
            if not isinstance(built, list) or self._process is None:
                return built
            if all(each.outcome != "ok" for each in evaluations(built, len(job.candidates), timed=False)):
                return built
            remaining = max(LEAST_SECONDS, time_limits.seconds - (time.monotonic() - start))
            with self._core.hold(self._process.pid):
                call = Call(time_waiting, self._drift.quiet, limits)
                timed = self._call(call, replace(time_limits, seconds=remaining))
            if isinstance(timed, Evaluation):
                phases = {**built[0].phases, **timed.phases}
                return replace(timed, phases=phases)
            if timed:
                return timed
        return Evaluation("crashed", diagnostic="its process was killed from outside while it was measured, twice")

    def _ready_process(self) -> IsolatedProcess:
        process = super()._ready_process()
        self._core.enter(process.pid)
        return process

    def _drop_process(self) -> None:
        if self._process is not None:
            self._core.leave(self._process.pid)
        super()._drop_process()


class WorkerPool(Closing):
    """Evaluator of one job per core at a time (an `autotune.core.evaluator.Slots`); use as a context manager.

    Attributes:
        core: Core that is measured on, and the CPU affinity of all workers.
    """

    is_ordered = False

    def __init__(self, cores: Sequence[int], seconds: float) -> None:
        """Start a worker for each core.

        Args:
            cores: CPUs reserved for the pool, at least two; the last is measured on.
            seconds: Time limit of a job in seconds.
        """
        self.core = MeasuringCore(cores)
        self._requests: SimpleQueue[tuple[int, Job] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, list[Evaluation] | BaseException]] = SimpleQueue()
        self._submitted = 0
        drift, memory = Drift(), worker_memory(len(cores))
        with this_process_on(self.core.others), ExitStack() as stack:
            self._workers = [
                stack.enter_context(PoolWorker(seconds, memory, self.core, drift)) for _ in self.core.cores
            ]
            self._close = stack.pop_all().close
        self._threads = [Thread(target=self._work, args=(each,), daemon=True) for each in self._workers]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def searching(self) -> Iterator["WorkerPool"]:
        """Keep this process off the measuring core, too, while the block runs; close the pool at its end."""
        with this_process_on(self.core.others), self:
            yield self

    def close(self) -> None:
        """Stop all workers immediately."""
        for _ in self._threads:
            self._requests.put(None)
        for thread, worker in zip(self._threads, self._workers, strict=True):
            while True:
                thread.join(CLOSE_SECONDS)
                if not thread.is_alive():
                    break
                worker.kill()
        self._close()

    def count(self) -> int:
        """Return the number of workers."""
        return len(self._workers)

    def submit(self, job: Job) -> int:
        """Queue a job for the next free worker and return the job's number."""
        self._submitted += 1
        self._requests.put((self._submitted, job))
        return self._submitted

    def wait(self) -> tuple[int, list[Evaluation]]:
        """Wait for a job to finish; return its number and the evaluation of each of its candidates.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
        """
        number, answer = self._done.get()
        if isinstance(answer, BaseException):
            raise answer
        return number, answer

    def _work(self, worker: Worker) -> None:
        """Process queued jobs until `None` is received. Runs in one thread per worker."""
        while (request := self._requests.get()) is not None:
            number, job = request
            answer: list[Evaluation] | BaseException
            try:
                answer = worker.evaluate(job)
            except BaseException as error:  # raised again in the waiting thread
                answer = error
            self._done.put((number, answer))
