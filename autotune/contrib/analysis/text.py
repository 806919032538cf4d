"""The analyses of a program as text, 80 columns wide."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from autotune.contrib.analysis.analysed import Analysis, analyse_program
from autotune.contrib.analysis.arena_map import FREE, SHARED, draw_map, live_bytes
from autotune.contrib.analysis.cache import WAYS
from autotune.contrib.analysis.reuse import Reuse
from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine
from autotune.core.ops.facts import LINE, Edge, ValueFacts
from autotune.core.ops.op import ProgramOp
from autotune.core.payload import Payload
from autotune.plugins import ShownStage
from autotune.reports.format import plural, size
from autotune.reports.scheduled import Scheduled

WIDTH, MAP_HEIGHT = 72, 14
MOST_SHARES, MOST_CASES = 4, 4  # maximum numbers shown
ENOUGH = 1e-3  # of an output's largest magnitude
OPS = "{:<16} {:<15.15} {:>4} {:>7} {:>9} {:>6} {}"


def analyse_and_describe(
    payload: Payload, text: str, candidate: Candidate, tasks: Sequence[Scheduled], machine: Machine
) -> str:
    """Analyse a program and describe the results as text; arguments and errors are those of `analyse_program`."""
    return describe_analysis(analyse_program(payload, text, candidate, tasks, machine))


def describe_analysis(analysis: Analysis) -> str:
    """Return all sections as text, separated by blank lines."""
    sections = (ops_section, fusion_section, values_section, arena_section, reuse_section)
    return "\n\n".join("\n".join(line.rstrip() for line in section(analysis)) for section in sections)


def ops_section(analysis: Analysis) -> Iterator[str]:
    """Yield the lines on shapes, operations that depend on no input, and arithmetic and bytes by operation."""
    facts = analysis.facts
    yield f"# {short(analysis.payload, 40)}: operations and bytes, by op of the text"
    yield f"{plural(facts.static, 'tensor')} of inferred shape, {len(facts.open)} with a size known at run time only"
    yield from wrapped(facts.open) if facts.open else ()
    known = Counter(op.depends for op in facts.ops)
    fixed = [f"{known[kind]} on {kind} alone" for kind in ("constants", "weights") if known[kind]]
    yield f"ops that depend on no input: {', '.join(fixed) or 'none'}"
    yield ""
    yield OPS.format("op", "gives", "runs", "Mflop", "bytes", "flop/B", "task")
    for op in facts.ops:
        intensity = f"{op.arithmetic / op.bytes:.3g}" if op.bytes else "-"
        each = f"{op.arithmetic / 1e6:.3g}"
        yield OPS.format(name(op), op.result, op.trips, each, size(op.bytes), intensity, short(op.task, 16))
    flops, moved = sum(op.arithmetic * op.trips for op in facts.ops), sum(op.bytes * op.trips for op in facts.ops)
    yield f"a call: {flops / 1e6:.4g} Mflop, {size(moved)} if each op reads and writes all of its own once"


def name(op: ProgramOp) -> str:
    """Return the number and kind of an operation."""
    return f"{op.number:>3} {op.kind[:12]}"


def short(text: str, width: int) -> str:
    """Shorten a text in its middle to at most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 8]}..{text[-6:]}"


def fusion_section(analysis: Analysis) -> Iterator[str]:
    """Yield the lines on fused values, and on the reasons why others are not fused."""
    facts = analysis.facts
    together = sum(not edge.why_apart for edge in facts.edges)
    yield "# fusion: which values never leave a block of rows, and why the others do"
    yield f"{plural(facts.before, 'op')} of the payload became {len(facts.ops)}: element-wise neighbours are one"
    yield f"of {plural(len(facts.edges), 'value')} between ops, {together} are fused with their consumer"
    for why, pairs in reasons_of(facts.edges).items():
        yield f"apart, {why}:"
        yield from wrapped(pairs)
    for tag, config in analysis.configs.items():
        if config is not None and "fuse" in config:
            chosen = "fused" if config["fuse"] else "one after the other, as its schedule chooses"
            yield f"task {short(tag, 28)}: {chosen}"


def reasons_of(edges: Sequence[Edge]) -> dict[str, list[str]]:
    """Group the pairs of operations that are not fused by reason, the most frequent first."""
    reasons: dict[str, list[str]] = {}
    for edge in edges:
        if edge.why_apart:
            reasons.setdefault(edge.why_apart, []).append(f"{edge.producer}-{edge.reader}")
    return dict(sorted(reasons.items(), key=lambda item: -len(item[1])))


def wrapped(words: Sequence[str], indent: str = "  ") -> Iterator[str]:
    """Wrap words to lines of `WIDTH` characters."""
    line = indent
    for word in words:
        if len(line) + len(word) + 1 > WIDTH:
            yield line
            line = indent
        line += f"{word} "
    yield line


def values_section(analysis: Analysis) -> Iterator[str]:
    """Yield the lines on value ranges and the precision that each value needs."""
    yield "# values: seen in one evaluation in float64 on the payload's inputs, seed 0"
    yield "needs: the narrowest of bf16, f16 and f32 that it alone can be rounded to, with"
    yield f"all outputs within {ENOUGH:.1%} of their largest; errors are shares of that"
    if analysis.facts.why_not:
        yield short(f"not all is known: {analysis.facts.why_not}", 80)
    yield ""
    yield f"{'op':<16} {'smallest':>10} {'largest':>10} {'least |x|':>10} {'bf16 error':>11} {'f16 error':>10}  needs"
    by_number = {op.number: op for op in analysis.facts.ops}
    for value in analysis.facts.values:
        errors = dict(value.errors)
        cells = [f"{errors[kind]:.1e}" if kind in errors else "-" for kind in ("bf16", "f16")]
        line = f"{name(by_number[value.op]):<16} {value.low:>10.3g} {value.high:>10.3g} {value.least:>10.2g}"
        yield f"{line} {cells[0]:>11} {cells[1]:>10}  {needed(value)}"


def needed(value: ValueFacts) -> str:
    """Return the narrowest element type to which a value can be rounded with an error of at most `ENOUGH`."""
    if not value.errors:
        return "-"
    return next((kind for kind, error in value.errors if error <= ENOUGH), "f32")


def arena_section(analysis: Analysis) -> Iterator[str]:
    """Yield the map of the arena and its summary."""
    plan = analysis.plan
    yield "# arena: bytes upwards, steps of the compiled program to the right"
    if plan is None or not plan.buffers:
        yield "no buffer lies in an arena: " + (
            "nothing is left between ops" if plan is not None else "none is planned"
        )
        return
    live = live_bytes(plan)
    yield f"{plan}"
    yield f"most that live at once: {size(max(live))}, at step {live.index(max(live))} of {len(live)}"
    cell = size(plan.peak_bytes / MAP_HEIGHT)
    yield f"a letter is a buffer, {FREE} is free, {SHARED} several in one cell, which is {cell}"
    for number, line in enumerate(draw_map(plan, WIDTH, MAP_HEIGHT)):
        yield f"{'top ' if number == 0 else '  0 ' if number == MAP_HEIGHT - 1 else '    '}|{line}"


def reuse_section(analysis: Analysis) -> Iterator[str]:
    """Yield the lines on reuse distances, cache traffic, and the agreement with a simulation."""
    yield "# reuse: how far apart two uses of a line are, in plain loops, unscheduled"
    yield f"{'op':<16} share of accesses at a distance"
    for op, distances in zip(analysis.facts.ops, analysis.reuses, strict=True):
        yield f"{name(op):<16} {shares(distances)}"
    yield ""
    yield "bytes that each cache fetches in a call, the calls before it counted in"
    yield f"{'op':<16} {'touched':>10} " + " ".join(f"{f'{c.name} {size(c.bytes)}':>14}" for c in analysis.caches)
    for index, op in enumerate(analysis.facts.ops):
        cells = " ".join(f"{size(cache.fetched[index]):>14}" for cache in analysis.caches)
        yield f"{name(op):<16} {size(op.bytes * op.trips):>10} {cells}"
    totals = " ".join(f"{size(sum(cache.fetched)):>14}" for cache in analysis.caches)
    yield f"{'all':<16} {size(sum(op.bytes * op.trips for op in analysis.facts.ops)):>10} {totals}"
    yield ""
    yield from agreement_lines(analysis)


def shares(distances: Sequence[Reuse]) -> str:
    """Format the largest shares of accesses by reuse distance, without those below one percent."""
    total = sum(reuse.count for reuse in distances)
    largest = sorted((reuse.count for reuse in distances), reverse=True)[:MOST_SHARES]
    texts = []
    for reuse in distances:
        if reuse.count >= max(0.01 * total, largest[-1]):
            where = "first" if reuse.lines == float("inf") else size(LINE * reuse.lines)
            texts.append(f"{reuse.count / total:.0%} {where}")
    return ", ".join(texts)


def agreement_of(analysis: Analysis) -> str:
    """Return a sentence on the difference between predicted and simulated miss rates."""
    worst = [case.worst for case in analysis.agreements]
    tried = sum(len(case.caches) for case in analysis.agreements)
    return (
        f"{plural(len(worst), 'op')}, {tried} caches: the share of accesses that miss differs by "
        f"{median(worst):.1%} for half of the ops, {max(worst):.1%} at worst"
    )


def agreement_lines(analysis: Analysis) -> Iterator[str]:
    """Yield the table of predicted and simulated small cases, the largest differences first."""
    if not analysis.agreements:
        return
    yield "predicted misses beside a simulation of every address of small cases, in caches"
    yield "of 8 lines and up"
    yield from wrapped(agreement_of(analysis).split(), "")
    yield f"{'the worst':<16} {'loops':<20} {'off by':>7} {'over LRU':>9} {f'over {WAYS} ways':>12}"
    by_number = {op.number: op for op in analysis.facts.ops}
    for case in sorted(analysis.agreements, key=lambda case: -case.worst)[:MOST_CASES]:
        in_ways = sum(case.predicted) / max(1, sum(case.in_ways))
        loops = "x".join(map(str, case.sizes))
        yield f"{name(by_number[case.op]):<16} {loops:<20} {case.worst:>7.1%} {case.total:>9.3f} {in_ways:>12.3f}"


STAGE = ShownStage(analyse_and_describe, after="tasks")
