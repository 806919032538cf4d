"""The open script of a family as text: a sequence over one op: its knobs, then the constraints, then what it does."""

from collections.abc import Iterator, Mapping
from textwrap import indent, wrap

from autotune.contrib.parametric.lines import PARAM, ScriptLine, is_comment
from autotune.contrib.parametric.opening import Opening, Size, open_family
from autotune.contrib.parametric.relation import product_of
from autotune.contrib.parametric.smt_text import write_constraint, write_size
from autotune.contrib.parametric.ties import TiedKnobs, tie_knobs
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.marks import ONLINE, PANEL
from autotune.core.space import Config
from autotune.core.task import Task

WIDTH = 114


def open_text(family: Family, task: Task, machine: Machine, config: Config) -> str:
    """The script that a family writes for a task, with its knobs open: ready to be edited, and tuned as one's own.

    Args:
        family: Covers the task.
        task: Task that the script is for.
        machine: Host that the script is written for.
        config: Config that the knobs select.

    Returns:
        A module with one named sequence over an op of the task. For every config that they allow, it does
        what the family's own script does, where the space is small enough that all of them were looked at.
    """
    opening = open_family(family, task, machine, config)
    return write_open(opening, tie_knobs(opening))


def write_open(opening: Opening, tied: TiedKnobs) -> str:
    """The text of an opening."""
    body = [*write_knobs(opening, tied), *write_body(opening, tied), "transform.yield"]
    said = marks_of(opening.author.rewrites)
    head = f"transform.named_sequence @schedule(%op: !transform.any_op {{transform.consumed}}){said} {{"
    lines = indent("\n".join([head, indent("\n".join(body), "  "), "}"]), "  ")
    return f"{preface(opening, tied)}module attributes {{transform.with_named_sequence}} {{\n{lines}\n}}\n"


def preface(opening: Opening, tied: TiedKnobs) -> str:
    """What the script is, and what is not open in it, for people."""
    author = opening.author
    opened = {knob.name for knob in tied.knobs if len(knob.values) > 1}
    fixed = ", ".join(f"{name} = {value}" for name, value in author.shown.items() if name not in opened)
    said = [f"{author.task.tag}, as family '{author.family.name}' schedules it. Give it back by --schedule FILE."]
    if fixed:
        said += wrap(f"Fixed, since other values write other ops: {fixed}.", WIDTH)
    return "".join(f"// {line}\n" for line in said)


def marks_of(rewrites: Rewrites) -> str:
    """Attributes of the sequence that say what happens to the op before it; empty for nothing."""
    said = [f"{PANEL} = {rewrites.panel} : i64"] if rewrites.panel else []
    if rewrites.blocks is not None:
        said.append(f"{ONLINE} = {{{rewrites.blocks.text}}}")
    return f" attributes {{{', '.join(said)}}}" if said else ""


def params_of(opening: Opening, tied: TiedKnobs) -> dict[str, str]:
    """Handles of the knobs' params, by name; none that the script uses already."""
    text = "\n".join(part for line in opening.author.lines for part in line.parts)
    return {knob.name: free_handle(f"%{knob.name}", text) for knob in tied.knobs}


def free_handle(handle: str, text: str) -> str:
    """A handle that a text does not hold."""
    while f"{handle}," in text or f"{handle} " in text or f"{handle}[" in text:
        handle += "_"
    return handle


def write_knobs(opening: Opening, tied: TiedKnobs) -> Iterator[str]:
    """The knobs, and the constraints between them."""
    params = params_of(opening, tied)
    meant = {switch.knob: switch.values for switch in opening.switches}
    for knob in tied.knobs:
        options = ", ".join(map(str, knob.values))
        if knob.name in meant:
            yield f"// {knob.name}: 0 is {meant[knob.name][0]}, 1 is {meant[knob.name][1]}"
        tune = f'transform.tune.knob<"{knob.name}"> = {opening.selected(knob)} from options = [{options}]'
        yield f"{params[knob.name]} = {tune} -> {PARAM}"
    for constraint in tied.constraints:
        yield from write_constraint(constraint, params)


def write_body(opening: Opening, tied: TiedKnobs) -> Iterator[str]:
    """The family's lines, with params in place of numbers; products of knobs are computed before."""
    params, made = params_of(opening, tied), dict[Size, str]()
    for size in (size for sizes in opening.sizes for size in sizes):
        if size.knobs and size not in made and not is_knob(size):
            made[size] = f"%size_{len(made)}"
            yield from write_size(made[size], product_of(size.factor, size.knobs), params)
    place = 0
    for line in opening.author.lines:
        if is_comment(line):
            yield line.write(())
            continue
        yield from begin_choices(opening, params, place)
        yield line.write([name_of(line, size, params, made) for size in opening.sizes[place]])
        place += 1
        yield from end_choices(opening, place)
    yield from begin_choices(opening, params, place)


def begin_choices(opening: Opening, params: Mapping[str, str], index: int) -> Iterator[str]:
    """What stands before an op: choices of ops that switches add, and the beginning of those that they leave out."""
    found = [(s, number) for s in opening.switches for number, hunk in enumerate(s.hunks) if hunk.at == index]
    for switch, number in sorted(found, key=lambda each: bool(each[0].hunks[each[1]].left_out)):
        chosen = f"selected_region = {params[switch.knob]} : {PARAM}"
        yield f'transform.tune.alternatives<"{switch.knob}_{number}"> {chosen} {{'
        if added := switch.hunks[number].added:
            yield from ("  transform.yield", "}, {")
            yield from (f"  {line.write([None] * len(line.numbers))}" for line in added)
            yield from ("  transform.yield", "}")


def end_choices(opening: Opening, index: int) -> Iterator[str]:
    """What stands behind the ops that a switch leaves out."""
    for switch in opening.switches:
        if any(hunk.left_out and hunk.at + hunk.left_out == index for hunk in switch.hunks):
            yield from ("  transform.yield", "}, {", "  transform.yield", "}")


def name_of(line: ScriptLine, size: Size, params: Mapping[str, str], made: Mapping[Size, str]) -> str | None:
    """What stands in a line for a number: a handle, or in an attribute the name of the knob; `None` for the number."""
    if not size.knobs:
        return None
    if line.attribute:
        return size.knobs[0]
    return params[size.knobs[0]] if is_knob(size) else made[size]


def is_knob(size: Size) -> bool:
    """Whether a number is what one knob is set to."""
    return size.factor == 1 and len(size.knobs) == 1
