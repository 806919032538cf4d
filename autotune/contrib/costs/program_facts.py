"""Static analysis of a program for cost functions, in an isolated process."""

from autotune.compiler.facts.fusion import read_edges
from autotune.compiler.facts.ops import read_ops, tensors_of
from autotune.compiler.ir.module import context, find_function, parse
from autotune.core.errors import PayloadError
from autotune.core.ops.facts import ProgramFacts
from autotune.core.payload import Payload
from autotune.worker.loading.reading import bare, partition, read_apart


def read_program(payload: Payload) -> ProgramFacts:
    """Analyse a program without data in an isolated process; weights may be missing.

    Raises:
        PayloadError: The process did not survive it.
        CompileError: The text does not parse.
    """
    tagged = bare(partition(payload).payload)
    return read_apart(read_plain_facts, tagged, payload.name, PayloadError)


def read_plain_facts(payload: Payload) -> ProgramFacts:
    """Analyse a program whose tasks are tagged, without ranges of values. Call in the isolated process only."""
    with context():
        module = parse(payload.text, payload.name)  # kept alive here: ops do not hold a reference
        function = find_function(module, payload.entry)
        ops, facts = read_ops(function, [argument.role for argument in payload.arguments])
        edges = read_edges(function, ops)
        static, dynamic = tensors_of(function)
    return ProgramFacts(tuple(facts), tuple(edges), len(ops), static, dynamic, (), "no data were made")
