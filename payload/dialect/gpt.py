"""The dialect `gpt`: the list of its ops, and payloads from MLIR files written in it."""

from dataclasses import dataclass
from functools import partial

from autotune.core.ops.dialect import WrittenFunction
from autotune.core.payload import Payload
from payload.dialect.definition import define
from payload.dialect.op import DialectOp
from payload.dialect.ops.activations import GeluOp, SwigluOp
from payload.dialect.ops.attention import AttentionOp, MergeHeadsOp, RopeOp, SplitHeadsOp
from payload.dialect.ops.block import BlockOp
from payload.dialect.ops.cache import CacheAppendOp, CacheRowsOp
from payload.dialect.ops.linear import AddOp, LinearOp, RestoreOp
from payload.dialect.ops.norms import LayerNormOp, RmsNormOp
from payload.dialect.ops.tables import AsRowOp, EmbeddingOp, IndexOp, LayerOp, RowOp, RowsOp, ShiftOp
from payload.dialect.program import OpProgram
from payload.dialect.reading import read_program
from payload.dialect.text import write_text
from payload.dialect.walk import cost, evaluate, longest_chain, lower_text


@dataclass(frozen=True)
class OpDialect:
    """Dialect of transformer ops.

    Attributes:
        name: Name of the dialect.
        ops: Ops of the dialect.
    """

    name: str
    ops: tuple[type[DialectOp], ...]

    @property
    def definition(self) -> str:
        """The dialect in IRDL, as a module."""
        return define(self.name, self.ops)

    def payload(self, path: str, function: WrittenFunction) -> Payload:
        """Return the payload of a function in a file.

        Args:
            path: Path of the file: the prefix of every message and the name of the payload.
            function: Function as parsed by MLIR.

        Raises:
            PayloadError: An op violates a constraint, or has no lowering; the message has its line.
        """
        program = read_program(path, function, self.name, {f"{self.name}.{op.name}": op for op in self.ops})
        return self.payload_of(path, program)

    def payload_of(self, name: str, program: OpProgram) -> Payload:
        """Lower a program to a payload, with the references of its ops as oracle.

        Args:
            name: Name of the payload.
            program: Program to lower.

        Raises:
            PayloadError: An op has no lowering.
        """
        total = cost(program.calls)
        return Payload(
            name=name,
            text=lower_text(program),
            entry=program.entry,
            arguments=program.arguments,
            flops=float(total.flops or total.others),
            reference=partial(evaluate, program),
            reduction=longest_chain(program.calls),
            dialect=write_text(program, self.name),
        )


GPT = OpDialect(
    "gpt",
    (
        *(EmbeddingOp, RowsOp, RowOp, AsRowOp, LayerOp, IndexOp, ShiftOp),
        *(LinearOp, RestoreOp, AddOp, LayerNormOp, RmsNormOp, GeluOp, SwigluOp),
        *(SplitHeadsOp, RopeOp, AttentionOp, MergeHeadsOp, CacheAppendOp, CacheRowsOp, BlockOp),
    ),
)
