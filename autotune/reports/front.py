"""Public functions for inspection: trials, plots, compilation stages, other libraries, the machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from autotune.bundles.bundle import Bundle
from autotune.compiler.lowering.stages import COMPILED
from autotune.core.errors import PayloadError
from autotune.core.listener import Listener, telling
from autotune.core.payload import Payload
from autotune.core.progress import watching
from autotune.core.space import Value
from autotune.core.verb_options import options_from, with_keywords
from autotune.reports.compare import compare as compare_all
from autotune.reports.compare_options import COMPARE_OPTIONS, CompareOptions
from autotune.reports.comparison import Comparison
from autotune.reports.holdings import read_holdings
from autotune.reports.importance import knob_importance
from autotune.reports.pictures.gallery import draw_all
from autotune.reports.show import show as show_stage
from autotune.store.folders import home
from autotune.tuning.by_hand import candidate_of
from autotune.tuning.tunable import TransformScript, TunableTask
from autotune.tuning.tunable import payload as payload_of
from autotune.worker.doctor import A_A_PAIRS, Diagnosis, examine
from autotune.worker.loading.reading import compile_to, script_text


def trials(store: str | Path, *, payload: str | None = None, where: str | None = None) -> pd.DataFrame:
    """Return all trials of a store as a data frame, failures included; the store may be in use by a running tuner.

    Args:
        store: Path of a file, or a database URL.
        payload: Name of the payload to restrict trials to.
        where: pandas query to restrict trials by; knobs have their own names: ``tile_m >= 8``.

    Returns:
        Frame with one row per trial: ``seconds_median``, ``seconds_normalised`` (drift divided out), ``gflops``,
        ``outcome``, ``family``, and ``knob_NAME`` for every knob.

    Raises:
        StoreError: The store is missing or damaged, or has no matching trials.
    """
    return read_holdings(store, payload=payload, where=where).frame


def importance(rows: pd.DataFrame) -> dict[str, float]:
    """Return the importance of each knob for a trial of one task to be among the best tenth; see `knob_importance`."""
    return knob_importance(rows)


def draw(store: str | Path, *, payload: str | None = None) -> dict[str, Figure]:
    """Draw all plots that a store has data for; return them by name.

    Raises:
        StoreError: The store is missing or damaged, or has no such payload.
    """
    return {picture.name: picture.figure for picture in draw_all(read_holdings(store, payload=payload))}


def show(
    source: str | Path | Payload | Bundle | TunableTask,
    stage: str = "schedule",
    candidate: Mapping[str, Value] | TransformScript | None = None,
    *,
    schedule: str | Path | None = None,
    family: str = "",
    rules: str | Path | None = None,
    exact: bool = False,
) -> str:
    """Return the text of a payload, bundle or task after a stage of its compilation.

    Args:
        source: Spec or payload, compiled with default configs; bundle, with its own; or task.
        stage: ``payload``, ``rewritten``, ``tasks``, ``space``, ``schedule``, ``scheduled``, ``bufferized``,
            ``lowered``, ``llvm``, ``asm``, ``code``, or a step in between; `autotune show --help` lists them.
        candidate: Config or script of a task; by default its family's default config.
        schedule: File of a user script, for a spec or payload.
        family: Family of schedules for a spec or payload: name of an installed one, or ``mine.py:FAMILY``.
        rules: File of rewrite rules in PDL, for a spec or payload; ``none`` for no rules at all.
        exact: Exclude rewrite rules that change rounding.

    Raises:
        ScheduleError: The script cannot be read or tuned.
        PayloadError: The source or stage is unknown, or a candidate is passed without a task.
        CompileError: The compiler refused the program before that stage.
    """
    if isinstance(source, TunableTask):
        chosen = candidate_of(source, candidate if candidate is not None else {})
        if stage == "schedule":
            return script_text(chosen.script)
        if stage in COMPILED:
            return compile_to(stage, source.payload, chosen).text
        raise PayloadError(f"the stage of a task must be one of schedule, {', '.join(COMPILED)}; got {stage!r}")
    if candidate is not None:
        raise PayloadError("a candidate is of one task; pass one of at.tasks(payload)")
    spec = source.folder if isinstance(source, Bundle) else source.name if isinstance(source, Payload) else source
    own = Path(schedule) if schedule is not None else None
    return show_stage(str(spec), stage, schedule=own, family=family, rules=str(rules or ""), exact=exact).text


@with_keywords(COMPARE_OPTIONS)
def compare(
    payload: str | Path | Payload,
    against: str | Sequence[str] | None = None,
    *,
    bundle: str | Path | None = None,
    beside: Sequence[str | Path | Payload] = (),
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - those of CompareOptions, which checks them
) -> Comparison:
    """Compare our schedules with other libraries: interleaved timing on the same inputs, with verified outputs.

    Args:
        payload: A spec, a path, or a payload.
        against: Names of comparators; `None` for all that are installed.
        bundle: Bundle of the best schedules; by default the newest bundle of the payload on this machine.
        beside: Further payloads, each a row, with the schedules of its newest bundle or default ones.
        listener: Listener of stages and notes; by default a line shows progress on a terminal and in a notebook.
        **options: Options of ``autotune compare`` by name: ``threads=2``; ``baseline=None`` for no baseline row.

    Raises:
        OptionError: An option is out of its range.
        ComparatorError: There is no such comparator.
        BundleError: The bundle is incomplete, edited, or of another payload.
    """
    chosen = options_from(CompareOptions, COMPARE_OPTIONS, {"against": against, **options}, "compare")
    folder = Path(bundle) if bundle is not None else None
    source, *others = map(payload_of, (payload, *beside))
    with watching(source.name) if listener is None else telling(listener) as shown:
        return compare_all(source, home() / "bundles", chosen, shown, bundle=folder, beside=others)


def doctor(pairs: int = A_A_PAIRS) -> Diagnosis:
    """Describe this machine: its roofs, its noise floor and missing dependencies; takes about ten seconds.

    Args:
        pairs: Number of A/A comparisons that the noise floor is estimated from; each takes up to a second.
    """
    return examine(pairs)
