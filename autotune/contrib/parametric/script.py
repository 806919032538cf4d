"""Text of a parametric script: a named sequence with the knobs, the constraints, and the family's transforms."""

from collections.abc import Iterator, Mapping
from textwrap import indent, wrap

from autotune.contrib.parametric.inferred import ParameterSpace, infer_constraints
from autotune.contrib.parametric.lines import PARAM, ScriptLine, is_comment
from autotune.contrib.parametric.parameters import ScriptParameters, Size, parameters_of
from autotune.contrib.parametric.relation import product_of
from autotune.contrib.parametric.smt_text import write_constraint, write_size
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.marks import ONLINE, PANEL
from autotune.core.space import Config
from autotune.core.task import Task

WIDTH = 114


def open_text(family: Family, task: Task, machine: Machine, config: Config) -> str:
    """Write the script of a family for a task with knobs as parameters, which can be edited and tuned as a user script.

    Args:
        family: Family that covers the task.
        task: Task to schedule.
        machine: Host for which the script is written.
        config: Config that is the default of the knobs.

    Returns:
        Module with one named sequence over an operation of the task. For every allowed config it is equivalent to the
        family's own script; this is checked for all configs of a small space, and for a sample of a large one.
    """
    parameters = parameters_of(family, task, machine, config)
    return write_parametric(parameters, infer_constraints(parameters))


def write_parametric(parameters: ScriptParameters, space: ParameterSpace) -> str:
    """Return the text of a parametric script."""
    body = [*write_knobs(parameters, space), *write_body(parameters, space), "transform.yield"]
    attributes = marks_of(parameters.written.rewrites)
    head = f"transform.named_sequence @schedule(%op: !transform.any_op {{transform.consumed}}){attributes} {{"
    lines = indent("\n".join([head, indent("\n".join(body), "  "), "}"]), "  ")
    return f"{preface(parameters, space)}module attributes {{transform.with_named_sequence}} {{\n{lines}\n}}\n"


def preface(parameters: ScriptParameters, space: ParameterSpace) -> str:
    """Return comment lines that describe the script and its fixed knobs."""
    written = parameters.written
    opened = {knob.name for knob in space.knobs if len(knob.values) > 1}
    fixed = ", ".join(f"{name} = {value}" for name, value in written.shown.items() if name not in opened)
    texts = [f"{written.task.tag}, as family '{written.family.name}' schedules it. Give it back by --schedule FILE."]
    if fixed:
        texts += wrap(f"Fixed, since other values write other ops: {fixed}.", WIDTH)
    return "".join(f"// {line}\n" for line in texts)


def marks_of(rewrites: Rewrites) -> str:
    """Return the attributes of the sequence that request rewrites before it; empty if there are none."""
    attributes = [f"{PANEL} = {rewrites.panel} : i64"] if rewrites.panel else []
    if rewrites.blocks is not None:
        attributes.append(f"{ONLINE} = {{{rewrites.blocks.text}}}")
    return f" attributes {{{', '.join(attributes)}}}" if attributes else ""


def params_of(parameters: ScriptParameters, space: ParameterSpace) -> dict[str, str]:
    """Return unused handles for the knobs' params, by knob name."""
    text = "\n".join(part for line in parameters.written.lines for part in line.parts)
    return {knob.name: free_handle(f"%{knob.name}", text) for knob in space.knobs}


def free_handle(handle: str, text: str) -> str:
    """Append underscores to a handle until the text does not use it."""
    while f"{handle}," in text or f"{handle} " in text or f"{handle}[" in text:
        handle += "_"
    return handle


def write_knobs(parameters: ScriptParameters, space: ParameterSpace) -> Iterator[str]:
    """Yield the lines of the knobs and the constraints between them."""
    params = params_of(parameters, space)
    meanings = {alternative.knob: alternative.values for alternative in parameters.alternatives}
    for knob in space.knobs:
        options = ", ".join(map(str, knob.values))
        if knob.name in meanings:
            yield f"// {knob.name}: 0 is {meanings[knob.name][0]}, 1 is {meanings[knob.name][1]}"
        tune = f'transform.tune.knob<"{knob.name}"> = {parameters.selected(knob)} from options = [{options}]'
        yield f"{params[knob.name]} = {tune} -> {PARAM}"
    for constraint in space.constraints:
        yield from write_constraint(constraint, params)


def write_body(parameters: ScriptParameters, space: ParameterSpace) -> Iterator[str]:
    """Yield the family's lines with params for numbers, preceded by the computation of products of knobs."""
    params, named_sizes = params_of(parameters, space), dict[Size, str]()
    for size in (size for sizes in parameters.sizes for size in sizes):
        if size.knobs and size not in named_sizes and not is_knob(size):
            named_sizes[size] = f"%size_{len(named_sizes)}"
            yield from write_size(named_sizes[size], product_of(size.factor, size.knobs), params)
    index = 0
    for line in parameters.written.lines:
        if is_comment(line):
            yield line.write(())
            continue
        yield from begin_choices(parameters, params, index)
        yield line.write([name_of(line, size, params, named_sizes) for size in parameters.sizes[index]])
        index += 1
        yield from end_choices(parameters, index)
    yield from begin_choices(parameters, params, index)


def begin_choices(parameters: ScriptParameters, params: Mapping[str, str], index: int) -> Iterator[str]:
    """Yield the lines before an operation: regions that add operations, and the start of regions that remove some."""
    starts = [(s, number) for s in parameters.alternatives for number, hunk in enumerate(s.hunks) if hunk.at == index]
    for alternative, number in sorted(starts, key=lambda each: bool(each[0].hunks[each[1]].left_out)):
        chosen = f"selected_region = {params[alternative.knob]} : {PARAM}"
        yield f'transform.tune.alternatives<"{alternative.knob}_{number}"> {chosen} {{'
        if added := alternative.hunks[number].added:
            yield from ("  transform.yield", "}, {")
            yield from (f"  {line.write([None] * len(line.numbers))}" for line in added)
            yield from ("  transform.yield", "}")


def end_choices(parameters: ScriptParameters, index: int) -> Iterator[str]:
    """Yield the lines that close the regions of alternatives whose removed operations end before `index`."""
    for alternative in parameters.alternatives:
        if any(hunk.left_out and hunk.at + hunk.left_out == index for hunk in alternative.hunks):
            yield from ("  transform.yield", "}, {", "  transform.yield", "}")


def name_of(line: ScriptLine, size: Size, params: Mapping[str, str], made: Mapping[Size, str]) -> str | None:
    """Return the replacement of a number in a line: a handle, or a knob's name for an attribute; `None` to keep it."""
    if not size.knobs:
        return None
    if line.attribute:
        return size.knobs[0]
    return params[size.knobs[0]] if is_knob(size) else made[size]


def is_knob(size: Size) -> bool:
    """Return whether a number is the value of a single knob."""
    return size.factor == 1 and len(size.knobs) == 1
