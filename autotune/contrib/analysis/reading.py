"""Extraction of the facts of a program and of its values, in the isolated process."""

from dataclasses import dataclass

from autotune.compiler.facts.fusion import read_edges
from autotune.compiler.facts.ops import read_ops, tensors_of
from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.ir.nests import structured_ops
from autotune.contrib.analysis.values import BoundFunction, read_values
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.ops.facts import ProgramFacts
from autotune.core.payload import Payload
from autotune.worker.bench.payload_arrays import PayloadArrays
from autotune.worker.worker import Worker

SECONDS = 300.0  # timeout of the whole extraction
ROUNDING_SECONDS = 10.0  # time budget for rounding values one by one


@dataclass(frozen=True)
class AnalysisRequest:
    """Program whose facts are extracted.

    Attributes:
        payload: The payload, whose functions create the inputs.
        text: Module of the payload with tagged tasks.
        seed: Seed of the inputs.
    """

    payload: Payload
    text: str
    seed: int = 0


def analyse(request: AnalysisRequest) -> ProgramFacts:
    """Extract the facts of a program in an isolated process.

    Raises:
        PayloadError: The process crashed or timed out.
        CompileError: The text does not parse.
    """
    with Worker(SECONDS) as worker:
        facts = worker.call(read_facts, request)
    if isinstance(facts, Evaluation):
        requirement = f"{request.payload.name} must be a program that can be read and evaluated, it is not"
        raise PayloadError(f"{requirement} ({facts.outcome}: {facts.diagnostic})")
    return facts


def read_facts(request: AnalysisRequest) -> ProgramFacts:
    """Extract the facts of a program. Call this in the isolated process only."""
    payload = request.payload
    bench = PayloadArrays(payload, request.seed)
    bench.restart(bench.cases[-1])
    with context():
        original, tagged = parse(payload.text, payload.name), parse(request.text, payload.name)
        ops_before = sum(1 for _ in structured_ops(find_function(original, payload.entry).regions[0].blocks[0]))
        function = find_function(tagged, payload.entry)
        ops, facts = read_ops(function, [argument.role for argument in payload.arguments])
        edges = read_edges(function, ops)
        static, dynamic = tensors_of(function)
        values, why_not = read_values(BoundFunction(function, payload.arguments, bench.arrays), ops, ROUNDING_SECONDS)
    return ProgramFacts(tuple(facts), tuple(edges), ops_before, static, dynamic, tuple(values), why_not)
