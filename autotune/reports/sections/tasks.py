"""Third section: task by task, a line each, that opens for pictures, config and script."""

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
CHOSEN = re.compile(r"^\s*// \w+ = .*$|transform\.tune\.knob<")  # where a script says what the search chose
TOP = 5  # configs of a task
FEWEST_TRIALS = 5  # that were right, for pictures of knobs to say something
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
    """Every task, payload by payload.

    Args:
        lines: The tasks.
        wholes: Seconds of one call by payload; without it, the tasks together stand for a call.
        texts: Files of the bundle by name; empty for a store.
    """
    payloads = list(dict.fromkeys(line.payload for line in lines))
    above = above_roof(line.roof_fraction for line in lines)
    blocks: list[Block] = [Paragraph(f"{WHAT_IT_SAYS} {above.capitalize()}." if above else WHAT_IT_SAYS)]
    for payload in payloads:
        mine = [line for line in lines if line.payload == payload]
        whole = wholes.get(payload) or sum(line.call_seconds or 0.0 for line in newest(mine))
        blocks += [Heading(payload)] if len(payloads) > 1 else []
        blocks.append(TaskList(COLUMNS, [task_of(line, whole, texts) for line in mine]))
    return Section(ANCHOR, TITLE, blocks)


def anchor_of(line: TaskLine) -> str:
    """Id of a task in the page."""
    return f"task-{line.number}"


def task_of(line: TaskLine, whole: float, texts: Mapping[str, str]) -> TaskCard:
    """A task's line, and what opens below it."""
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
    """The gain over the default config, or that it is the default."""
    return "default" if line.config is not None and line.config == line.default else times(line.over_default)


def facts_of(line: TaskLine) -> dict[str, str]:
    """What a line has no room for."""
    found = {"tag": line.tag}
    if len(line.trials):
        last = line.trials.iloc[-1]
        found |= {"machine": str(last["machine"]), "compiler": str(last["compiler"])}
    if line.seconds is not None and line.seconds.low < line.seconds.high:
        found["time of one"] = f"{time_span(line.seconds)}, 95 % interval"
    if len(line.trials):
        counts = line.trials["outcome"].value_counts()
        found["trials"] = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return found | ({"note": line.note} if line.note else {})


def config_blocks(line: TaskLine) -> list[Block]:
    """What of the config differs from the default's, and all of it, folded."""
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
    """A row a knob: chosen value, default, what else there was."""
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
    """The values that a knob could take."""
    return ", ".join(map(str, values[:MOST_CHOICES])) + (", ..." if len(values) > MOST_CHOICES else "")


def knob_pictures(line: TaskLine) -> list[Picture]:
    """What the knobs do; nothing where hardly any trial was right."""
    if line.trials.empty or (line.trials["outcome"] == "ok").sum() < FEWEST_TRIALS:
        return []
    return list(draw_knobs(line.payload, line.tag, line.trials, line.name))


def best_table(line: TaskLine) -> Block:
    """The fastest trials, each by what sets it apart from the fastest."""
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
    """The knobs in which a config differs from another, with their values."""
    return " ".join(f"{name}={config[name]}" for name in changed_knobs(config, other)) or "-"


def script_blocks(line: TaskLine, texts: Mapping[str, str]) -> list[Block]:
    """The script of a task and the module it is applied to, where they are recorded."""
    files = {"Script": f"schedules/{line.tag}.mlir", "Module": f"tasks/{line.tag}.mlir"}
    return [code_of(f"{what}, {name}", texts[name]) for what, name in files.items() if name in texts]


def code_of(title: str, text: str) -> Code:
    """A file; what the search chose is marked."""
    lines = [CodeLine(line, bool(CHOSEN.search(line))) for line in text.splitlines()]
    return Code(f"{title}, {len(lines)} lines", lines)
