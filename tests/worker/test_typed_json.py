"""Values of declared types as JSON and raw bytes: whatever bytes come, a value of the type, or an error."""

import collections.abc
import json
import os
import random
import sys
import types
import typing
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from tuning_support import contraction_payload

from autotune.compiler.lowering.stages import Stage
from autotune.compiler.tasks.partition import partition
from autotune.contrib.cluster.slot import METHODS, SlotRequest
from autotune.core.arena_plan import place
from autotune.core.errors import AnswerError, CompileError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Roofs
from autotune.core.host.stopwatch import Moment
from autotune.core.ops.dialect import WrittenFunction
from autotune.core.ops.facts import ProgramFacts
from autotune.core.ops.oracle import ContractionOracle
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.scripts.parametric import OpenKnob, OpenScript, ScriptConstraint, Site
from autotune.core.scripts.rules import Rewriting, Rule
from autotune.core.scripts.terms import Term
from autotune.core.trial import Samples
from autotune.worker.bench.entry import ExpectedPart, Verification
from autotune.worker.bench.proof import OutputError, Transformed
from autotune.worker.isolation.answers import (
    RETURNED,
    Raised,
    Returned,
    joined,
    read_answer,
    write_answer,
    write_moment,
)
from autotune.worker.isolation.typed_json import DTYPES, LENGTH, MOST_JSON, codec, dump, load

MUTATIONS = int(os.environ.get("ANSWERS", "10000"))
SEED = int(os.environ.get("ANSWERS_SEED", "0"))
NUMBERS = [np.arange(6, dtype=dtype).reshape(2, 3) for name, dtype in DTYPES.items() if name != "bool"]
TIMED = Evaluation(
    "ok",
    Samples((1e-3, 2e-3), (1e-4, 1e-4), 7, 1e-4, 1e-4, 0.5),
    1e-6,
    phases={"lower": 0.1, "jit": 0.2},
    buffers=place([]),
)
LAW = ScriptConstraint(
    0, (Term("eq", (Term("variable", (), "k"), Term("constant", (), 8))),), (), Site(1, 2, (("k", True), ("l", "x")))
)
SCRIPT = OpenScript("a.mlir", "x" * 5000, "0", "e", (OpenKnob("k", (1, "a", False), ("1",), 1, ()),), (LAW,))
VALUES = [
    (TIMED, Evaluation),
    (float("inf"), float),
    (np.int64(3), int),
    (SCRIPT, OpenScript),
    (ExpectedPart(0, 1, 2, (3,), np.arange(3.0)), ExpectedPart),
    (Stage("text", None, b"\0\xff" * 3000), Stage),
    ((OutputError("o", float("nan"), 0.0, 1e-3, 2.0, 1, 1),), tuple[OutputError, ...]),
    ("\N{GREEK SMALL LETTER ALPHA}" * 5000, str),
    ({"a": 1.5}, dict[str, float]),
    ((b"one", b""), tuple[bytes, ...]),
    (None, None),
    ((None, TIMED), tuple[Roofs | None, Evaluation | None]),
]


@cache
def parts():
    return partition(contraction_payload(9, 11, 5))


@pytest.mark.parametrize(("value", "kind"), VALUES, ids=lambda each: str(each)[:20])
def test_value_comes_back_as_it_was(value, kind):
    again = load(joined(dump(value, kind)), kind)
    assert repr(again) == repr(value if not isinstance(value, np.generic) else value.item())


def test_partition_of_a_payload_comes_back_with_the_oracles_of_its_tasks():
    again = load(joined(dump(parts(), Partition)), Partition)
    assert again == parts()
    assert isinstance(again.tasks[0].payload.reference, ContractionOracle)


@pytest.mark.parametrize("start", [float("nan"), float("inf"), float("-inf"), -0.0], ids=str)
def test_oracle_of_a_contraction_comes_back_with_the_number_that_it_begins_at(start):
    payload = parts().tasks[0].payload
    begun = replace(payload, reference=replace(payload.reference, start=start))
    again = load(joined(dump(begun, Payload)), Payload)
    assert repr(again.reference) == repr(begun.reference)


@pytest.mark.parametrize(
    "array", [*NUMBERS, np.array(3.5), np.zeros((0, 7)), np.ones((4, 4))[::2, 1:], np.array([True])]
)
def test_array_comes_back_as_it_was_and_read_only(array):
    again = load(joined(dump(array, np.ndarray)), np.ndarray)
    assert (again.dtype, again.shape, again.flags.writeable, again.flags.aligned) == (
        array.dtype,
        array.shape,
        False,
        True,
    )
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize(
    "dtype",
    ["object", "O", "O8", "V8", "datetime64", "complex128", "<f8", "S8", "float640", "", None, 3, ["float64"], {}],
)
def test_array_of_any_other_dtype_is_refused(dtype):
    with pytest.raises(AnswerError):
        load(raw({"dtype": dtype, "shape": [1], "at": 0, "bytes": 8}, b"A" * 8), np.ndarray)


@pytest.mark.parametrize(
    "shape", [[2], [-1], [1 << 62], [1 << 62, 4], [0], [1] * 40, [True], [1.0], "1", None, [[1]], [1 << 70, 0]]
)
def test_array_of_another_size_than_its_bytes_is_refused(shape):
    with pytest.raises(AnswerError):
        load(raw({"dtype": "float64", "shape": shape, "at": 0, "bytes": 8}, b"A" * 8), np.ndarray)


@pytest.mark.parametrize(
    ("at", "size"), [(0, 16), (8, 8), (-8, 8), (1 << 70, 8), (0, 1 << 70), (0, -8), (None, 8), (0, "8")]
)
def test_bytes_that_did_not_come_are_refused(at, size):
    with pytest.raises(AnswerError):
        load(raw({"at": at, "bytes": size}, b"A" * 8), bytes)


def test_bytes_are_taken_once_each_in_all():
    once = {"at": 0, "bytes": 8}
    with pytest.raises(AnswerError):
        load(raw([once] * 1000, b"A" * 8), tuple[bytes, ...])


class Wild:
    """No data."""


@dataclass(frozen=True)
class Holder:
    """Data with something else in it."""

    call: collections.abc.Callable[[], None]


@pytest.mark.parametrize("kind", [Wild, list[Wild], tuple[Verification | Evaluation], dict[int, str], type, complex])
def test_type_that_is_no_data_has_no_codec(kind):
    with pytest.raises(TypeError, match="answer"):
        codec(kind)


def test_function_has_no_form():
    with pytest.raises(Exception, match="serialize"):
        dump(Holder(print), Holder)
    with pytest.raises(AnswerError):
        load(raw({"call": "print"}), Holder)
    payload = replace(contraction_payload(4, 4, 4), reference=print)
    assert "serialize" in str(read_answer(joined(write_answer(Returned(payload), type(payload))), type(payload)).error)


def raw(value, behind=b""):
    """A message of any JSON."""
    text = json.dumps([value]).encode()
    return LENGTH.pack(len(text)) + text + behind


ATTACKS = {
    "deep-lists": (b"[" * 200_000, Term),
    "deep-objects": (b'{"a":' * 200_000, Term),
    "deep-terms": (b"[" + b'{"op":"x","operands":[' * 5000 + b"]}" * 5000 + b"]", Term),
    "wrong-numbers": (b'[["' + b'a","' * 2_000_000 + b'"]]', tuple[float, ...]),
    "wrong-values": (b"[{" + b",".join(b'"%d":""' % n for n in range(200_000)) + b"}]", dict[str, float]),
    "many-names": (b"[{" + b",".join(b'"%d":1' % n for n in range(200_000)) + b"}]", dict[str, float]),
    "long-number": (b"[" + b"9" * 4000 + b"]", int),
    "longer-number": (b"[" + b"9" * 1_000_000 + b"]", int),
    "half-a-pair": (b'["\\ud800"]', str),
    "no-utf-8": (b'["\xff"]', str),
    "number-as-text": (b'["NaN"]', float),
    "truth-as-number": (b"[true]", int),
    "too-long": (b" " * (MOST_JSON + 1), int),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_attack_on_the_reader_ends_at_once(what):
    text, kind = ATTACKS[what]
    with pytest.raises(AnswerError) as refused:
        load(LENGTH.pack(len(text)) + text, kind)
    assert len(str(refused.value)) < 500


def test_every_kind_of_answer_is_data():
    kinds = (
        Partition,
        WrittenFunction,
        OpenScript,
        ProgramFacts,
        Rewriting,
        tuple[Rule, ...],
        Transformed,
        Verification,
        Stage,
    )
    for kind in (*kinds, *(SlotRequest(method, (abs,)).kind for method in METHODS)):
        codec(kind)


SAMPLES = [
    (
        lambda: write_answer(Returned([TIMED, Evaluation("crashed", diagnostic="x")]), list[Evaluation]),
        list[Evaluation],
    ),
    (lambda: write_answer(Returned(parts()), Partition), Partition),
    (lambda: write_answer(Returned(VALUES[4][0]), ExpectedPart), ExpectedPart),
    (lambda: write_answer(Returned(np.arange(6, dtype=ml_dtypes.bfloat16)), np.ndarray), np.ndarray),
    (lambda: write_answer(Returned(SCRIPT), OpenScript), OpenScript),
    (lambda: write_answer(Returned({"a": 1.5, "b": 2.0}), dict[str, float]), dict[str, float]),
    (lambda: write_answer(Raised(CompileError("jit", "no")), int), int),
    (lambda: write_moment(Moment("lower", 3)), int),
]
TOKENS = [
    *(b"[]", b"{}", b"null", b"true", b"-1", b"0", b"NaN", b"Infinity", b"-Infinity", b'"NaN"', b"1e999", b'"\\ud800"'),
    *(b"9" * 30, b"9" * 5000, b"[" * 300, b'{"a":' * 300, b'"' + b"x" * 5000 + b'"', b'""', b'"O"', b'"ok"', b"1.5"),
    *(
        b"18446744073709551616",
        b'{"at":0,"bytes":8}',
        b'{"dtype":"object","shape":[1],"at":0,"bytes":8}',
        b"\xff\xfe",
        b"\0",
    ),
]


def mutated(data, others, dice):
    """A message with some things changed in it: bytes, lengths, parts of others, values of JSON."""
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(data) + 1)
        how = dice.randrange(7)
        if how == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif how == 1:
            del data[at:]
        elif how == 2:
            other = dice.choice(others)
            data[at:] = other[dice.randrange(len(other)) :]
        elif how == 3:
            data[at : at + dice.randrange(9)] = dice.randbytes(dice.randrange(9))
        elif how == 4:
            data[at:at] = data[at : at + dice.randrange(60)]  # names and values twice
        else:
            data = with_token(data, dice)
        data = data or bytearray(b"x")
    return bytes(data)


def with_token(data, dice):
    """A message with another value in the place of one of its JSON, whose length is right again."""
    begin = len(RETURNED) + LENGTH.size
    if len(data) < begin:
        return data
    (length,) = LENGTH.unpack(data[begin - LENGTH.size : begin])
    text, behind = data[begin : begin + length], data[begin + length :]
    starts = [n for n, byte in enumerate(text) if byte in b"[,:"]
    if not starts or length > len(data):
        return data
    at = dice.choice(starts) + 1
    end = next((n for n in range(at, len(text)) if text[n] in b",]}"), len(text))
    text[at:end] = dice.choice(TOKENS)
    return data[: len(RETURNED)] + LENGTH.pack(len(text)) + text + behind


def conforms(value, kind):  # noqa: PLR0911 - a case a line
    """Whether a value is of a type, all through; written without the reader."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, each) for each in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is np.ndarray or kind is np.ndarray:
        return type(value) is np.ndarray and value.dtype in DTYPES.values() and not value.flags.writeable
    if origin is collections.abc.Callable:
        return type(value) is ContractionOracle and conforms(value, ContractionOracle)
    if origin in (list, tuple) and (origin is list or arguments[-1] is ...):
        return type(value) is origin and all(conforms(each, arguments[0]) for each in value)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(arguments) and all(map(conforms, value, arguments))
    if origin in (dict, collections.abc.Mapping):
        return type(value) is dict and all(type(k) is str and conforms(v, arguments[1]) for k, v in value.items())
    if is_dataclass(kind):
        hints = hints_of(kind)
        return type(value) is kind and all(conforms(getattr(value, f.name), hints[f.name]) for f in fields(kind))
    return type(value) is (type(None) if kind is None else kind)


@cache
def hints_of(kind):
    return typing.get_type_hints(kind)


def state_of_the_tuner():
    """Every attribute of every class, and the defaults of every function, of the modules of this project."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("autotune", "payload", "schedules", "costs", "builtins")):
            for each in list(vars(module).values()):
                if isinstance(each, type):
                    found[each] = {key: id(value) for key, value in vars(each).items() if not key.startswith("_abc")}
                elif isinstance(each, types.FunctionType):
                    found[each] = (id(each.__code__), id(each.__defaults__), id(each.__kwdefaults__))
    return found


def test_no_mutation_of_an_answer_gives_anything_but_data_or_changes_the_tuner():
    samples = [(joined(make()), kind) for make, kind in SAMPLES]
    assert all(read_answer(data, kind) for data, kind in samples)
    before, dice, read = state_of_the_tuner(), random.Random(SEED), 0
    others = [data for data, _ in samples]
    for _ in range(MUTATIONS):
        data, kind = dice.choice(samples)
        changed = mutated(data, others, dice)
        try:
            found = read_answer(changed, kind)
        except AnswerError:
            continue
        read += 1
        if isinstance(found, Returned):
            assert conforms(found.value, kind), changed
        else:
            assert isinstance(found, Raised | Moment)
            repr(found)
    assert MUTATIONS * 0.02 < read < MUTATIONS * 0.8  # it looks at both
    assert state_of_the_tuner() == before
