"""Display of a payload or bundle after a stage of its compilation, with default, recorded or given configs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.lowering.stages import COMPILED
from autotune.compiler.lowering.steps import SCHEDULING
from autotune.core.candidate import Candidate
from autotune.core.console import WIDTH
from autotune.core.errors import PayloadError, RuleError, ScheduleError
from autotune.core.host.files import holds
from autotune.core.host.machine import Machine, this_machine
from autotune.core.ops.uncovered import UncoveredOp
from autotune.core.payload import UNPROVED, Payload
from autotune.core.plugs.family import Family
from autotune.core.plugs.verb import PayloadStage, ShownStage
from autotune.core.printable import did_you_mean
from autotune.core.scripts.user_family import OwnFamily
from autotune.core.task import Task
from autotune.registry import PAYLOAD_STAGES, STAGES, families_for, load_family, loaded_points, rewriter
from autotune.reports.hot_loop import describe_hot_loop
from autotune.reports.memory import memory_beside_weights
from autotune.reports.scheduled import Scheduled, as_recorded, candidate_of, only, recorded_tasks, with_knobs
from autotune.reports.space import describe_space
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.stages.user_script import dry_run_all, open_own, own_of, own_script, parts_of
from autotune.worker.loading.reading import ScriptFile, compile_to, open_payload, script_text

DEFAULT = "default"
INDENT = "    "  # of lines with knobs
UNPLANNED = "buffers: allocated in every call; the pipeline plans no arena"


@dataclass(frozen=True)
class Shown:
    """Text to print.

    Attributes:
        text: Text of the stage.
        note: Notes on buffers (from bufferization on), on a user script, and on the memory of a bundle with states; may
            be empty.
        doubt: Sentence on results that no independent oracle has verified; empty if there are none.
    """

    text: str
    note: str = ""
    doubt: str = ""


def show(
    source: str,
    stage: str,
    task: str | None = None,
    config: str | None = None,
    schedule: Path | None = None,
    *,
    family: str = "",
    rules: str = "",
    exact: bool = False,
) -> Shown:
    """Return the text of a payload, a bundle or a single task after a stage.

    Args:
        source: Spec of a payload, or folder of a bundle.
        stage: Name of the stage, one of `stages()`.
        task: Tag of a single task to show.
        config: Knobs of that task as ``name=value,...``; the others are from the default or the bundle; an empty text
            changes none.
        schedule: File of a user script; by default the script of the bundle or of the payload's file.
        family: Family to show schedules of: name of an installed one, or ``mine.py:FAMILY``.
        rules: File of rewrite rules for a payload; ``none`` for none; empty for the default rules.
        exact: Exclude rewrite rules that change rounding.

    Raises:
        ScheduleError: The script cannot be read or tuned.
        PayloadError: The payload, stage or task is unknown, or a config is given for several tasks.
        SpaceError: The config is not in the task's space.
        BundleError: The bundle is incomplete or edited.
        RuleError: The rules cannot be read or applied.
        CompileError: The compiler refused the program before that stage.
    """
    if stage not in (known := stages()):
        hint = did_you_mean(stage, known)
        raise PayloadError(f"stage must be one of {', '.join(known)}; got {stage!r}{'; ' * bool(hint)}{hint}")
    bundle = read_bundle(Path(source)) if holds(source, MANIFEST_FILE) else None
    payload = named_payload(source, bundle, rules, exact=exact)
    shown = show_stage(payload, bundle, stage, task=task, config=config, schedule=schedule, family=family)
    memory = memory_beside_weights(bundle) if bundle is not None else ""
    note = "; ".join(filter(None, (shown.note, memory)))
    return replace(shown, note=note, doubt=UNPROVED if payload.unproved else "")


def show_stage(
    payload: Payload,
    bundle: BundleFiles | None,
    stage: str,
    *,
    task: str | None,
    config: str | None,
    schedule: Path | None,
    family: str,
) -> Shown:
    """Return the text of a payload after a stage, with the payload's bundle if it has one; see `show`."""
    if (early_stage := payload_stages().get(stage)) is not None:
        return Shown(*early_stage.describe(payload))
    recorded = recorded_tasks(bundle) if bundle is not None else None
    machine = this_machine()
    script = own_of(bundle) if bundle is not None else read_own(payload, schedule) if not family else None
    parts = parts_of(payload, script)
    own = script or (covering(load_family(family), parts.tasks, payload) if family else None)
    note = "; ".join(dry_run_all(parts, script, machine)) if schedule is not None and script is not None else ""
    if stage == "space":
        shown = [as_recorded(each, recorded, machine, own) for each in parts.tasks if task in (None, each.tag)]
        return Shown("\n\n".join(describe_space(each, machine) for each in shown), note)
    if task is not None or config is not None:
        alone = as_recorded(only(parts.tasks, task, "a config is of one task"), recorded, machine, own)
        chosen = with_knobs(alone, config, machine) if config else alone
        return show_tasks(stage, chosen.task.payload, [chosen], machine)
    if stage == "tasks":
        listed = [*list_tasks(parts.tasks, recorded, machine, own), *list_uncovered(parts.uncovered)]
        return Shown("\n".join(listed))
    if bundle is not None and stage in OWN and (own is None or stage != "scheduled"):
        return render(stage, payload, recorded_candidate(bundle), machine)
    whole = [as_recorded(each, recorded, machine, own) for each in parts.tasks]
    shown_stage = show_tasks(stage, payload, whole, machine, parts.payload.text)
    return replace(shown_stage, note="; ".join(filter(None, (note, shown_stage.note))))


def covering(family: Family, tasks: Sequence[Task], payload: Payload) -> Family:
    """Return a family if it covers a task.

    Raises:
        ScheduleError: The family covers no task of the payload.
    """
    if not any(family.covers(task) for task in tasks):
        tags = ", ".join(task.tag for task in tasks) or "none"
        raise ScheduleError(f"--family must cover a task of {payload.name}: {tags}; {family.name!r} covers none")
    return family


def list_tasks(
    tasks: Sequence[Task], recorded: Mapping[str, Any] | None, machine: Machine, own: Family | None
) -> Iterator[str]:
    """Yield a description of each task with its recorded config, or without a bundle its default config."""
    if recorded is not None:
        tasks_now = {each.tag: each for each in tasks}
        for tag, record in recorded.items():
            yield describe(tag, record, others(tasks_now.get(tag), record["schedule"]))
        return
    for task in tasks:
        record = as_recorded(task, None, machine, own).record()
        yield describe(task.tag, record, others(task, record["schedule"]))


def list_uncovered(ops: Sequence[UncoveredOp]) -> Iterator[str]:
    """Yield a line for each operation that no task covers."""
    for op in ops:
        yield f"no task: {op.name}  runs {op.runs}, {op.operations:.3g} operations  {op.why}"


def named_payload(source: str, bundle: BundleFiles | None, rules: str, *, exact: bool) -> Payload:
    """Return the payload of a spec or a bundle, with rewrite rules.

    Raises:
        PayloadError: There is no such payload.
        RuleError: The rules cannot be read, or are given for a bundle, which has its own.
    """
    payload = bundle.payload if bundle is not None else open_payload(source)
    if not rules and not exact:
        return payload
    if bundle is not None:
        raise RuleError(f"--rules and --exact must be of a payload, {source} is a bundle, which has its own; drop them")
    return replace(payload, rules=rewriter().read(rules or None, exact=exact))


def show_dialect(payload: Payload) -> Shown:
    """Return a payload's text in the dialect of its source.

    Raises:
        PayloadError: The payload is written in linalg.
    """
    if not payload.dialect:
        raise PayloadError(
            f"stage dialect must be of a payload that is written in a dialect, {payload.name} is written in linalg; "
            "see stage payload"
        )
    return Shown(payload.dialect)


def show_tasks(
    stage: str, payload: Payload, tasks: Sequence[Scheduled], machine: Machine, text: str | None = None
) -> Shown:
    """Return the text of tasks after a stage, in their tagged module `text`, or of a single task without it."""
    if stage == "tasks":
        return Shown("\n".join(describe(each.task.tag, each.record()) for each in tasks))
    candidate = candidate_of(tasks, machine, text)
    if stage not in OWN:
        return Shown(plugged_stages()[stage].describe(payload, text or payload.text, candidate, tasks, machine))
    return render(stage, payload, candidate, machine)


def read_own(payload: Payload, schedule: Path | None) -> OwnFamily | None:
    """Read the user script for a payload: the given file, or the script in the payload's file; `None` if none."""
    file = own_script(payload, ScriptFile.read(schedule) if schedule is not None else None)
    return open_own(file) if file is not None else None


def show_difference(
    source: str,
    stage: str,
    sides: tuple[str, str],
    *,
    task: str | None = None,
    config: str | None = None,
    schedule: Path | None = None,
    rules: str = "",
    exact: bool = False,
) -> Shown:
    """Return a unified diff of two stages, or of two configs at one stage.

    Args:
        source: Spec of a payload, or folder of a bundle.
        stage: Stage at which configs are compared.
        sides: Two stages; or two configs, each given as ``name=value,...`` or ``default``.
        task: Tag of the task.
        config: Knobs of that task if stages are compared.
        schedule: File of a user script, as for `show`.
        rules: File of rewrite rules, as for `show`.
        exact: Exclude rewrite rules that change rounding.

    Raises:
        PayloadError: Only one of the sides is a stage, or as for `show`.
    """
    first, second = sides
    early = payload_stages()
    if "payload" in sides and (plugged := next((early[side] for side in sides if side in early), None)) is not None:
        bundle = read_bundle(Path(source)) if holds(source, MANIFEST_FILE) else None
        return Shown(*plugged.differ(named_payload(source, bundle, rules, exact=exact), first, second))
    look = partial(show, source, task=task, schedule=schedule, rules=rules, exact=exact)
    known = stages()
    if all(side in known for side in sides):
        texts = [look(side, config=config).text for side in sides]
    elif any(side in known for side in sides):
        raise PayloadError(f"--diff must name two stages or two configs, got {first} and {second}")
    else:
        texts = [look(stage, config="" if side == DEFAULT else side).text for side in sides]
    before, after = (text.splitlines() for text in texts)
    lines = unified_diff(before, after, first, second, n=3, lineterm="")
    return Shown("\n".join(lines) or f"{first} and {second} are the same")


def others(task: Task | None, mine: str | None) -> str:
    """Return a phrase on the other families that cover a task; empty if there are none or the task is gone."""
    names = [family.name for family in families_for(task) if family.name != mine] if task is not None else []
    return f" (also {', '.join(names)})" if names else ""


def render(stage: str, payload: Payload, candidate: Candidate, machine: Machine) -> Shown:
    """Return the text of a candidate after a stage."""
    if stage == "dialect":
        return show_dialect(payload)
    if stage == "payload":
        return Shown(payload.text)
    if stage == "schedule":
        return Shown(script_text(candidate.script))
    if stage == "asm":
        return Shown(describe_hot_loop(payload, candidate, machine))
    compiled = compile_to(stage, payload, candidate)
    if stage in ("scheduled", *SCHEDULING):
        return Shown(compiled.text)
    return Shown(compiled.text, str(compiled.buffers) if compiled.buffers is not None else UNPLANNED)


def describe(tag: str, record: Mapping[str, Any], also: str = "") -> str:
    """Describe a task: number of ops in the text, executions per call, family; its knobs follow on indented lines."""
    config = record["config"]
    how = record["schedule"] if config is not None else "plain lowering"
    knobs = " ".join(f"{name}={value}" for name, value in (config or {}).items())
    lines = wrap(knobs, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False)
    return "\n".join([f"{tag}  ops {record['ops']}, runs {record['count']}  {how}{also}", *lines])


OWN = ("dialect", "payload", "tasks", "space", "schedule", *COMPILED[:-1], "asm", COMPILED[-1])


def plugged_stages() -> dict[str, ShownStage]:
    """Return the stages that plug-ins add for scheduled payloads, by name.

    Raises:
        PayloadError: A plug-in does not load.
    """
    return {point.name: stage for point, stage in loaded_points(STAGES, ShownStage, refuse)}


def payload_stages() -> dict[str, PayloadStage]:
    """Return the stages that plug-ins add before scheduling, by name; raises as `plugged_stages`."""
    return {point.name: stage for point, stage in loaded_points(PAYLOAD_STAGES, PayloadStage, refuse)}


def refuse(message: str) -> None:
    """Raise `PayloadError` for a plug-in that does not load."""
    raise PayloadError(message)


def stages() -> tuple[str, ...]:
    """Return the names of all stages, in the order of compilation."""
    names = list(OWN)
    before = {name: stage.after for name, stage in payload_stages().items()}
    for name, after in (before | {name: stage.after for name, stage in plugged_stages().items()}).items():
        names.insert(names.index(after) + 1 if after in names else len(names), name)
    return tuple(names)
