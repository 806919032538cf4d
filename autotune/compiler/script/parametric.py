"""Read parametric scripts: the knobs and constraints of a user schedule, as plain data."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlir import ir

from autotune.compiler.ir.limits import inclusion_fault
from autotune.compiler.ir.module import context, every_op, symbol
from autotune.compiler.script.checks import check_file
from autotune.compiler.script.marked_ops import rewrites_of
from autotune.compiler.script.user_module import find_entry, find_matcher, parse_file, sequences_of, transform_ops
from autotune.compiler.script.walk import CONSTRAIN, ScriptWalk
from autotune.core.errors import ScheduleError
from autotune.core.scripts.parametric import Choices, OpenScript
from autotune.core.space import short_list


def read_open_script(text: str, source: str) -> OpenScript:
    """Collect the knobs and constraints of a script. Runs in the isolated process, as the text is untrusted.

    Args:
        text: Contents of the file; a payload in it is ignored.
        source: Name of the file, the prefix of error messages.

    Raises:
        ScheduleError: The text does not parse, has no entry or several, or contains an unsupported operation; the error
            gives line and column.
    """
    with context():
        module = parse_file(text, source)
        check_file(module, source)
        own = transform_ops(module, source)
        if (fault := inclusion_fault(own)) is not None:
            raise ScheduleError(f"{source} {fault}; include fewer")
        entry_op = find_entry(own, source)
        entry, rewrites = str(symbol(entry_op)), rewrites_of(entry_op, source)
        matcher_op = find_matcher(own, source)
        matcher = str(symbol(matcher_op)) if matcher_op is not None and matcher_op != entry_op else ""
        walk = ScriptWalk(source, sequences_of(own.operation), numbered_constraints(own))
        walk.follow(entry, (), [])
        walk.check_sets()
        digest = hashlib.sha256(str(own).encode()).hexdigest()
        counts = {knob.name: len(knob.values) for knob in walk.in_order()}
        knobs = tuple(replace(knob, used=merged(walk.used.get(knob.name, ()), counts)) for knob in walk.in_order())
        unread = [repr(knob.name) for knob in knobs if not knob.used]
        unused = [f"@{name}" for name in walk.sequences if name not in walk.reached and name != matcher]
        notes = [
            *sentence_on(source, "knob", unread, "read nowhere"),
            *sentence_on(source, "sequence", unused, "included nowhere"),
        ]
        return OpenScript(source, text, digest, entry, knobs, tuple(walk.constraints), tuple(notes), rewrites, matcher)


def sentence_on(source: str, kind: str, names: Sequence[str], what: str) -> list[str]:
    """Return one sentence on names of a kind, however many they are; none where there is no name.

    Example:
        >>> sentence_on("mine.mlir", "knob", ["'rows'"], "read nowhere")
        ["mine.mlir: knob 'rows' is read nowhere"]
    """
    if len(names) < 2:
        return [f"{source}: {kind} {name} is {what}" for name in names]
    return [f"{source}: {len(names)} {kind}s are {what}: {short_list(names)}"]


def merged(used: Iterable[Choices], counts: Mapping[str, int]) -> tuple[Choices, ...]:
    """Simplify the choices under which a knob is read: drop a last choice of which all values lead to a use.

    Args:
        used: Paths of choices that lead to a use.
        counts: Number of values of every knob.
    """
    paths = dict.fromkeys(used)
    for path in sorted(paths, key=len, reverse=True):
        siblings = [each for each in paths if path and each[:-1] == path[:-1] and each[-1][0] == path[-1][0]]
        if siblings and len(siblings) == counts[path[-1][0]]:
            return merged([*(each for each in paths if each not in siblings), path[:-1]], counts)
    return tuple(paths)


def numbered_constraints(own: ir.Module) -> dict[ir.Operation, int]:
    """Return the constraint operations of a module, numbered in the order of the text."""
    constraints = (op for op in every_op(own) if op.name == CONSTRAIN)
    return {op: number for number, op in enumerate(constraints)}
