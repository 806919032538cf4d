"""Third section of the report: one line per task, which unfolds to plots, config and script."""

import re
from collections.abc import Mapping, Sequence

from autotune.core.space import Config, Value
from autotune.reports.format import above_roof, plural, time_span, times
from autotune.reports.overview import changed_knobs, config_of
from autotune.reports.pictures.gallery import Picture, draw_knobs
from autotune.reports.sections.blocks import (
    Block,
    Code,
    CodeLine,
    DataTable,
    Facts,
    FoldedSection,
    Gallery,
    Heading,
    Paragraph,
    Section,
    TableCell,
    TableColumn,
    TableRow,
    TaskCard,
    TaskList,
)
from autotune.reports.sections.cells import count_cell, factor_cell, rate_cell, roof_cell, time_cell
from autotune.reports.task_lines import TaskLine, newest

ANCHOR, TITLE = "tasks", "Task by task"
CHOSEN = re.compile(r"^\s*// \w+ = .*$|transform\.tune\.knob<")  # lines of a script with chosen values
TOP = 5  # configs of a task
FEWEST_TRIALS = 5  # successful trials, for plots of knobs to be useful
MOST_CHOICES = 12  # values of a knob that are listed
WHAT_IT_SAYS = (
    "Each task is timed alone; the bar is its share of a call. The roof is that of fused multiply-adds, of which a "
    "task without a product has no share. Over default: against the config its family gives without a search."
)
COLUMNS = (
    TableColumn("task"),
    TableColumn("runs", numeric=True),
    TableColumn("each", numeric=True),
    TableColumn("of the roof", numeric=True),
    TableColumn("trials", numeric=True),
    TableColumn("over default", numeric=True),
    TableColumn("over baseline", numeric=True),
    TableColumn("family"),
)


def tasks_of(lines: Sequence[TaskLine], wholes: Mapping[str, float], texts: Mapping[str, str]) -> Section:
    """Return the section with all tasks, by payload.

    Args:
        lines: Lines of the tasks.
        wholes: Seconds per call by payload; if a payload is missing, the sum of its tasks is used.
        texts: Files of the bundle by name; empty for a store.
    """
    payloads = list(dict.fromkeys(line.payload for line in lines))
    above = above_roof(line.roof_fraction for line in lines)
    blocks: list[Block] = [Paragraph(f"{WHAT_IT_SAYS} {above.capitalize()}." if above else WHAT_IT_SAYS)]
    for payload in payloads:
        tasks = [line for line in lines if line.payload == payload]
        whole = wholes.get(payload) or sum(line.call_seconds or 0.0 for line in newest(tasks))
        blocks += [Heading(payload)] if len(payloads) > 1 else []
        blocks.append(TaskList(COLUMNS, [task_of(line, whole, texts) for line in tasks]))
    return Section(ANCHOR, TITLE, blocks)


def anchor_of(line: TaskLine) -> str:
    """Return the id of a task in the page."""
    return f"task-{line.number}"


def task_of(line: TaskLine, whole: float, texts: Mapping[str, str]) -> TaskCard:
    """Return a task's line and the blocks that unfold below it."""
    trials, each = len(line.trials), line.seconds.estimate if line.seconds else None
    cells = [
        TableCell(line.name, title=line.tag),
        count_cell(line.count),
        time_cell(each),
        roof_cell(line.roof_fraction),
        count_cell(trials or None),
        TableCell(default_text(line), line.over_default),
        factor_cell(line.over_baseline),
        TableCell(line.family or "plain lowering"),
    ]
    blocks = [Facts(facts_of(line)), *config_blocks(line)]
    pictures = knob_pictures(line)
    blocks += [Gallery(pictures)] if pictures else []
    blocks += [best_table(line)] if trials > 1 else []
    blocks += script_blocks(line, texts)
    return TaskCard(anchor_of(line), cells, (line.call_seconds or 0.0) / whole if whole else 0.0, blocks)


def default_text(line: TaskLine) -> str:
    """Format the speed-up over the default config, or state that it is the default."""
    return "default" if line.config is not None and line.config == line.default else times(line.over_default)


def facts_of(line: TaskLine) -> dict[str, str]:
    """Return further facts about a task that its line does not show."""
    facts = {"tag": line.tag}
    if len(line.trials):
        last = line.trials.iloc[-1]
        facts |= {"machine": str(last["machine"]), "compiler": str(last["compiler"])}
    if line.seconds is not None and line.seconds.low < line.seconds.high:
        facts["time of one"] = f"{time_span(line.seconds)}, 95 % interval"
    if len(line.trials):
        counts = line.trials["outcome"].value_counts()
        facts["trials"] = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return facts | ({"note": line.note} if line.note else {})


def config_blocks(line: TaskLine) -> list[Block]:
    """Return the part of the config that differs from the default, and the whole config, collapsed."""
    if line.config is None:
        return [Paragraph("It keeps the plain lowering.")]
    if line.default is None:
        return [config_table(line, tuple(line.config), "Value of every knob; its default is not known here.")]
    if not line.changed:
        summary = f"{plural(len(line.config), 'knob')}, all at the default"
        return [FoldedSection(summary, [config_table(line, tuple(line.config), "Value of every knob.")])]
    summary = f"{len(line.changed)} of {plural(len(line.config), 'knob')} not at the default."
    whole = config_table(line, tuple(line.config), "Value of every knob; marked where it is not the default's.")
    return [config_table(line, line.changed, summary), FoldedSection(f"All {len(line.config)} knobs", [whole])]


def config_table(line: TaskLine, knobs: Sequence[str], caption: str) -> DataTable:
    """Return a table of knobs with chosen value, default, and possible values."""
    config, default = line.config or {}, line.default
    heads = ["knob", "chosen", *(["default"] if default is not None else []), *(["choices"] if line.choices else [])]
    rows = [
        TableRow(
            [
                TableCell(knob),
                TableCell(str(config[knob])),
                *([TableCell(str(default.get(knob, "-")))] if default is not None else []),
                *([TableCell(choices_text(line.choices.get(knob, ())))] if line.choices else []),
            ],
            marked=knob in line.changed and len(knobs) > len(line.changed),
        )
        for knob in knobs
    ]
    return DataTable(caption, [TableColumn(head) for head in heads], rows)


def choices_text(values: Sequence[Value]) -> str:
    """Format the possible values of a knob."""
    return ", ".join(map(str, values[:MOST_CHOICES])) + (", ..." if len(values) > MOST_CHOICES else "")


def knob_pictures(line: TaskLine) -> list[Picture]:
    """Return the plots of a task's knobs; none with fewer than `FEWEST_TRIALS` successful trials."""
    if line.trials.empty or (line.trials["outcome"] == "ok").sum() < FEWEST_TRIALS:
        return []
    return list(draw_knobs(line.payload, line.tag, line.trials, line.name))


def best_table(line: TaskLine) -> Block:
    """Return a table of the fastest trials, each with its differences from the fastest."""
    best = line.trials[line.trials["outcome"] == "ok"].nsmallest(TOP, "seconds_normalised")
    if best.empty:
        return Paragraph("No trial succeeded.")
    fastest = config_of(best.iloc[0])
    rows = []
    for index, (_, trial) in enumerate(best.iterrows(), 1):
        seconds = float(trial["seconds_normalised"])
        rate = float(trial["gflops"] * trial["seconds_median"] / seconds)
        apart = TableCell(difference(config_of(trial), fastest))
        rows.append(TableRow([count_cell(index), time_cell(seconds), rate_cell(rate), apart]))
    heads = ("place", "time", "GFLOP/s", "other than the fastest")
    caption = "The fastest trials of the search; times have the machine's drift divided out."
    return DataTable(caption, [TableColumn(head, head != heads[-1]) for head in heads], rows)


def difference(config: Config, other: Config) -> str:
    """Format the knobs in which a config differs from another, with their values."""
    return " ".join(f"{name}={config[name]}" for name in changed_knobs(config, other)) or "-"


def script_blocks(line: TaskLine, texts: Mapping[str, str]) -> list[Block]:
    """Return the script of a task and the module that it applies to, as far as recorded."""
    files = {"Script": f"schedules/{line.tag}.mlir", "Module": f"tasks/{line.tag}.mlir"}
    return [code_of(f"{title}, {name}", texts[name]) for title, name in files.items() if name in texts]


def code_of(title: str, text: str) -> Code:
    """Return a file as a block of code with the search's choices highlighted."""
    lines = [CodeLine(line, bool(CHOSEN.search(line))) for line in text.splitlines()]
    return Code(f"{title}, {len(lines)} lines", lines)
