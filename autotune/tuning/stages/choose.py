"""Selection of a task's winner: finalists are measured again, interleaved with each other and the baseline."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, count
from queue import SimpleQueue

from autotune.core.bench import Bench
from autotune.core.candidate import Candidate
from autotune.core.care import FULL, Care
from autotune.core.evaluator import Effort
from autotune.core.host.stopwatch import COMPILE
from autotune.core.listener import SILENT, Listener
from autotune.core.objective import PLAIN, Objective
from autotune.core.plugs.family import Baseline
from autotune.core.space import Config
from autotune.core.stats import is_different, quiet_time
from autotune.core.trial import Samples, Trial
from autotune.tuning.samplers.objectives import finalists_of
from autotune.tuning.stages.slow_baseline import WHOLE_SECONDS, part_for
from autotune.tuning.stages.task_search import TaskSearch

INSTEAD = "plain lowering instead"
EQUAL_SHARE = 0.25  # share of the noise floor within which the simpler candidate is preferred
CLOSE = 2.0  # factor to the best time within which the baseline is raced against the finalists
HOPELESS = 1.5  # factor to the best time of no coarser rivals, beyond which a rounding family is not raced
BASELINE_EFFORT = Effort(samples=3, seconds=0.1)
FEWEST_FOR_PRESELECTION = 3  # finalists from which a first round saves more time than compiling them again takes
PRESELECTION_EFFORT = Effort(samples=20, seconds=1.5, sample_seconds=0.001)
RACE_EFFORT = Effort(samples=60, seconds=3.0, sample_seconds=0.001)


@dataclass(frozen=True)
class Choice:
    """Winner of a task, which it is compiled with in the whole model.

    Attributes:
        search: Search of the task.
        config: Winning config; `None` for the plain lowering.
        samples: Times of the winner in the final comparison; `None` if it was not measured again.
        baseline_seconds: Seconds a call of the baseline for this task; `None` if it could not be run.
        note: Reason, where it is not simply the fastest; empty otherwise.
        rivals: Times of the other families and back ends, by name, interleaved with the winner's.
        others: Alternative choices of the task, measured beside it, for the error budget.
    """

    search: TaskSearch
    config: Config | None
    samples: Samples | None = None
    baseline_seconds: float | None = None
    note: str = ""
    rivals: tuple[tuple[str, Samples], ...] = ()
    others: tuple["Choice", ...] = ()

    @property
    def joules(self) -> float | None:
        """Energy of a call of the winner in joules, from its trial; `None` where it is not known."""
        return next((trial.joules for trial in self.search.right if trial.config == self.config), None)


def choose(
    search: TaskSearch,
    baseline: Baseline,
    floor: float,
    worker: Bench,
    care: Care = FULL,
    *,
    plain_seconds: Callable[[], float | None] | None = None,
    raced_later: bool = False,
) -> Choice:
    """Race the finalists of a search and choose the winner.

    Ties go to the simplest finalist, and the baseline wins where it is faster. Finalists are verified on data that the
    search has not used. Where there are several, only those that may be the fastest after a first round go on.

    Args:
        search: A finished search.
        baseline: Baseline that no task may be slower than.
        floor: Noise floor, a relative difference.
        worker: Bench to measure in.
        care: Numbers of finalists and processes.
        plain_seconds: Function that returns the seconds a call of the baseline, shared by the searches of a task.
        raced_later: Whether the winner is raced with those of other searches, within the same tolerance: a first round
            is then enough here.
    """
    default = search.family.default(search.task, search.machine)
    if not search.trials:
        return Choice(search, default, note="no trial was left for it; the default config, unmeasured alone")
    if not search.right:
        last = search.trials[-1]
        config = " ".join(f"{name}={value}" for name, value in last.config.items())
        return Choice(search, None, note=f"no config works ({last.diagnostic}; with {config}); {INSTEAD}")
    finalists = pick_finalists(search, default, care.finalists)
    plain = Candidate(None, baseline.pipeline)
    seconds = plain_seconds() if plain_seconds is not None else time_plain(search, baseline, worker)
    close = seconds is not None and seconds < CLOSE * search.right[0].seconds_median
    has_front = search.objective.has_joules  # with slower candidates that are worth it
    if len(finalists) >= FEWEST_FOR_PRESELECTION and not has_front:
        first_round = race(search, [search.candidate(trial.config) for trial in finalists], PRESELECTION_EFFORT, worker)
        ran = {i: samples for i, samples in enumerate(first_round) if samples is not None}
        is_enough = raced_later and not close and ran
        left = [settle(ran, finalists, default, floor)] if is_enough else contenders(first_round, floor)
        finalists = [finalists[i] for i in left]
    if raced_later and len(finalists) == 1 and not close:
        return Choice(search, finalists[0].config, None, seconds)
    candidates = [search.candidate(trial.config) for trial in finalists] + ([plain] if close else [])
    times = race(search, candidates, RACE_EFFORT, worker, processes=care.processes)
    theirs = times.pop() if close else None
    raced = {i: samples for i, samples in enumerate(times) if samples is not None}
    if not raced:
        return Choice(search, search.right[0].config, None, seconds, "the finalists could not be measured again")
    winner = settle(raced, finalists, default, floor, search.objective)
    if theirs is not None:
        seconds = theirs.median
        faster = quiet_time(theirs.seconds) < quiet_time(raced[winner].seconds)
        if faster and is_different(theirs.seconds, raced[winner].seconds, floor=floor):
            return Choice(search, None, None, seconds, f"{baseline.name} is faster here; {INSTEAD}")
    return Choice(search, finalists[winner].config, raced[winner], seconds)


def choose_all(
    searches: Sequence[TaskSearch],
    baseline: Baseline,
    floor: float,
    benches: Sequence[Bench],
    listener: Listener = SILENT,
    *,
    begins: Callable[[], None] = lambda: None,
    care: Care = FULL,
) -> list[Choice]:
    """Choose the winner of every task; with several benches, tasks are measured in parallel, one on each bench.

    Args:
        searches: Finished searches; those of one task compete.
        baseline: Baseline that no task may be slower than.
        floor: Noise floor, a relative difference.
        benches: Benches to measure on.
        listener: Listener of each task.
        begins: Function called before the finalists of each task.
        care: Numbers of finalists and processes.
    """
    of_task: dict[str, list[TaskSearch]] = {}
    for search in searches:
        of_task.setdefault(search.task.tag, []).append(search)
    free: SimpleQueue[Bench] = SimpleQueue()
    numbers = count(1)
    for bench in benches:
        free.put(bench)

    def choose_one(rivals: Sequence[TaskSearch]) -> Choice:
        bench = free.get()
        begins()
        listener.stage(f"measuring finalists of task {next(numbers)} of {len(of_task)}")
        try:
            plain_seconds = cache(partial(time_plain, rivals[0], baseline, bench))
            able = worth_racing(rivals)
            choices = [
                choose(
                    search,
                    baseline,
                    floor,
                    bench,
                    care,
                    plain_seconds=plain_seconds,
                    raced_later=len(able) > 1 and is_judged_alike(search, able),
                )
                for search in able
            ]
            return settle_rivals(choices, floor, bench, care.processes)
        finally:
            free.put(bench)

    if len(benches) == 1:
        return [choose_one(rivals) for rivals in of_task.values()]
    with ThreadPoolExecutor(len(benches)) as pool:
        return list(pool.map(choose_one, of_task.values()))


def worth_racing(rivals: Sequence[TaskSearch]) -> list[TaskSearch]:
    """Return the searches of a task that may win; a rounding family must not be much slower than no coarser ones.

    Times of the search exclude only families that are slower by a factor of `HOPELESS`; those without a time are kept.
    """

    def is_hopeless(search: TaskSearch) -> bool:
        error, mine = search.family.error, search.best_seconds
        no_coarser = (each for each in rivals if each is not search and each.family.error <= error)
        times = [each.best_seconds for each in no_coarser if each.best_seconds is not None]
        return bool(error and mine is not None and times and mine > HOPELESS * min(times))

    return [search for search in rivals if not is_hopeless(search)]


def is_judged_alike(search: TaskSearch, rivals: Sequence[TaskSearch]) -> bool:
    """Return whether a race of rivals, within the largest of their error budgets, has the tolerance of a search."""
    return search.task.payload.error >= max(each.task.payload.error for each in rivals)


def settle_rivals(choices: Sequence[Choice], floor: float, bench: Bench, processes: int) -> Choice:
    """Race the winners of all families and back ends of a task, interleaved; in a tie the first one wins.

    Args:
        choices: Winner of each search; the first is that of the default family, if one covers the task.
        floor: Noise floor, a relative difference.
        bench: Bench to measure in.
        processes: Number of processes to race in.
    """
    able = [choice for choice in choices if choice.config is not None]
    waits = any(choice.samples is None and not choice.note for choice in able)  # for this race
    if len(able) < 2 and not waits:
        chosen = (able or choices)[0]
        against = (
            f"{choice.search.family.name} does not compete: {choice.note.removesuffix(f'; {INSTEAD}')}"
            if able
            else choice.note
            for choice in choices
            if choice.note and choice not in able
        )
        notes = "; ".join(against)
        return chosen if len(choices) == 1 else replace(chosen, note=chosen.note or notes)
    candidates = [choice.search.candidate(choice.config or {}) for choice in able]
    widest = max((choice.search for choice in able), key=lambda search: search.task.payload.error)
    times = race(widest, candidates, RACE_EFFORT, bench, processes=processes)
    raced = {i: samples for i, samples in enumerate(times) if samples is not None}
    if not raced:
        return replace(able[0], note="its competitors could not be measured in turn with it")
    values = [(quiet_time(samples.seconds), able[i].joules) for i, samples in raced.items()]
    scores = dict(zip(raced, able[0].search.objective.scores(values), strict=True))
    most = (1 + EQUAL_SHARE * floor) * min(scores.values())
    winner = min(i for i, score in scores.items() if score <= most)
    others = tuple((able[i].search.family.name, samples) for i, samples in raced.items() if i != winner)
    rest = tuple(replace(able[i], samples=samples) for i, samples in raced.items() if i != winner)
    return replace(able[winner], samples=raced[winner], rivals=others, others=rest)


def time_plain(search: TaskSearch, baseline: Baseline, worker: Bench) -> float | None:
    """Measure the seconds a call of a baseline for a task, by a part of a long call; return `None` if it fails."""
    seconds = None
    for part in dict.fromkeys((part_for(search.task.needed_flops), 1)):
        (alone,) = worker.evaluate(search.job([Candidate(None, baseline.pipeline, part=part)], BASELINE_EFFORT))
        seconds = alone.samples.median if alone.samples else None
        if seconds is not None and seconds > WHOLE_SECONDS:
            break
    return seconds


def pick_finalists(search: TaskSearch, default: Config, most: int) -> list[Trial]:
    """Return the fastest trials, or the best of the Pareto front, and the trial of the default config."""
    if search.objective.has_joules:
        finalists = finalists_of(search.right, search.objective, most)
    else:
        finalists = search.right[:most]
    return finalists + [trial for trial in search.right if trial.config == default and trial not in finalists]


def race(
    search: TaskSearch, candidates: list[Candidate], effort: Effort, worker: Bench, *, processes: int = 1
) -> list[Samples | None]:
    """Measure candidates interleaved, on data of another seed than the search's; `None` for one that failed.

    Args:
        search: Search that the candidates are from.
        candidates: Candidates to race.
        effort: Limits of the measurement in each process.
        worker: Bench to measure in.
        processes: Number of processes to measure in, one after the other; the first is the current one.
    """
    job = replace(search.job(candidates, effort), seed=search.seed + 1)
    races: list[list[Samples | None]] = []
    for _ in range(processes):
        if races:
            worker.renew()
        races.append([evaluation.samples for evaluation in worker.evaluate(job)])
    return [joined(times) for times in zip(*races, strict=True)]


def joined(times: Sequence[Samples | None]) -> Samples | None:
    """Concatenate the times of one program in several processes; return `None` if it failed in one."""
    ran = [samples for samples in times if samples is not None]
    if len(ran) < len(times):
        return None
    seconds = tuple(chain.from_iterable(samples.seconds for samples in ran))
    beside = tuple(chain.from_iterable(samples.reference_seconds for samples in ran))
    return replace(ran[0], seconds=seconds, reference_seconds=beside)


def contenders(times: Sequence[Samples | None], floor: float) -> list[int]:
    """Return the positions of candidates that may be the fastest after a race; all of them if none ran."""
    ran = {i: samples for i, samples in enumerate(times) if samples is not None}
    return as_fast_as_best(ran, floor) if ran else list(range(len(times)))


def as_fast_as_best(raced: Mapping[int, Samples], floor: float) -> list[int]:
    """Return the positions of candidates that do not differ significantly from the fastest."""
    fastest = raced[min(raced, key=lambda i: quiet_time(raced[i].seconds))]
    return [i for i, mine in raced.items() if not is_different(mine.seconds, fastest.seconds, floor=floor)]


def settle(
    raced: Mapping[int, Samples],
    finalists: Sequence[Trial],
    default: Config,
    floor: float,
    objective: Objective = PLAIN,
) -> int:
    """Return the winner's position: of candidates as good as the fastest, the default, else the quickest to compile.

    They are within a part of the noise floor of it, by point estimates. A significance test would also accept slower
    candidates, and its borderline cases are not reproducible.
    """
    values = [(quiet_time(samples.seconds), finalists[i].joules) for i, samples in raced.items()]
    times = dict(zip(raced, objective.scores(values), strict=True))
    most = (1 + EQUAL_SHARE * floor) * min(times.values())
    best = [i for i, seconds in times.items() if seconds <= most]
    return min(best, key=lambda i: (finalists[i].config != default, compile_seconds(finalists[i])))


def compile_seconds(trial: Trial) -> float:
    """Return the compile time of a trial in seconds."""
    return sum(trial.phases.get(phase, 0.0) for phase in COMPILE)
