r"""Values of declared types as JSON and raw bytes: a format that holds data, and has no way to name code.

    value --declared type--> JSON, with the bytes of arrays and long texts behind it --same type--> value

Whoever reads says which type must come, and gets that or `AnswerError`. pydantic writes and reads; its schema of a type
is narrowed first, so that what is no data has no form, and reading ends at the first fault: 16 MiB of wrong numbers
cost 17 s and 2.6 GB where all faults were gathered.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeAlias, get_type_hints

import ml_dtypes
import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema
from pydantic_core.core_schema import SerializationInfo, ValidationInfo

from autotune.core.errors import AnswerError
from autotune.core.ops.oracle import ContractionOracle
from autotune.core.payload import Array

Schema: TypeAlias = Any  # of pydantic's core: dicts in dicts
Loaded: TypeAlias = Any  # a value of the type that was asked for, which no checker of types can follow
LENGTH = struct.Struct("!Q")
ALIGNMENT = 16  # of every array, from the first byte of a message on
SHORT_TEXT = 1 << 12  # bytes of a text that stands in the JSON
MOST_JSON = 1 << 24  # bytes: a list of small numbers takes forty times as much memory, and two seconds
MOST_NAMES = 1 << 12  # of a dict
MOST_NUMBER = 1 << 64
MOST_DIMENSIONS = 32
MOST_SAID = 200  # characters
NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", ml_dtypes.bfloat16),
)
DTYPES = {np.dtype(number).name: np.dtype(number) for number in NUMBERS}
REFERENCES = {"reference": ContractionOracle}  # what a field that holds a function may hold in an answer
CONFIG = ConfigDict(strict=True, ser_json_inf_nan="constants", arbitrary_types_allowed=True)
SCALARS = ("bool", "float", "int", "literal", "none", "str")
WITH_PARTS = (
    *("any", "bool", "dataclass", "dataclass-args", "dataclass-field", "default", "definition-ref", "definitions"),
    *("float", "literal", "none", "nullable"),
)


class Raw:
    """Bytes behind the JSON of a message.

    Attributes:
        parts: Those that are written, in order.
    """

    def __init__(self, data: memoryview) -> None:
        """Begin with those of a message that is read; with none for one that is written."""
        self.parts: list[memoryview] = []
        self._size = 0
        self._data, self._left = data, len(data)

    def keep(self, data: memoryview) -> dict[str, Any]:
        """Put bytes behind the JSON; what stands for them in it."""
        found = {"at": self._size, "bytes": len(data)}
        self.parts += [data, memoryview(bytes(-len(data) % ALIGNMENT))]
        self._size += len(data) + -len(data) % ALIGNMENT
        return found

    def take(self, about: Mapping[str, object]) -> memoryview:
        """The bytes that something stands for; all that are taken are no more than came.

        Raises:
            AnswerError: The message holds no such bytes, or none are left.
        """
        at, size = about.get("at"), about.get("bytes")
        if type(at) is not int or type(size) is not int or at < 0 or not 0 <= size <= self._left:
            raise AnswerError("raw bytes of an answer must be among those that came")
        self._left -= size
        found = self._data[at : at + size]
        if len(found) != size:
            raise AnswerError("raw bytes of an answer must be among those that came")
        return found


@dataclass(frozen=True)
class Codec:
    """How values of a type are written and read."""

    writer: SchemaSerializer
    reader: SchemaValidator


def dump(value: object, kind: object) -> list[memoryview]:
    """A value of a type as the parts of a message.

    Raises:
        Exception: The value is of another type, which pydantic names.
    """
    raw = Raw(memoryview(b""))
    text = codec(kind).writer.to_json((value,), context=raw, warnings="none")
    text += b" " * (-(LENGTH.size + len(text)) % ALIGNMENT)
    return [memoryview(LENGTH.pack(len(text)) + text), *raw.parts]


def load(data: bytes | memoryview, kind: object) -> Loaded:
    """The value of a type that a message holds; its arrays are views of the message, which cannot be written to.

    Raises:
        AnswerError: The message holds no such value.
    """
    view = memoryview(data)
    try:
        (length,) = LENGTH.unpack_from(view)
        if length > min(MOST_JSON, len(view) - LENGTH.size):
            raise AnswerError(f"JSON of an answer must be of at most {MOST_JSON} bytes that came, it has {length}")
        text, behind = view[LENGTH.size : LENGTH.size + length], view[LENGTH.size + length :]
        (found,) = codec(kind).reader.validate_json(bytes(text), strict=True, context=Raw(behind))
    except AnswerError:
        raise
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise AnswerError(f"an answer must be as promised; {where}: {first['msg']}"[:MOST_SAID]) from error
    except Exception as error:  # too large for memory, or refused by a class of ours
        raise AnswerError(f"an answer must be as promised; {type(error).__name__}: {error}"[:MOST_SAID]) from error
    return found


@cache
def promised(function: Callable[..., object]) -> object:
    """The type that a function declares to return; `Any`, which stands for plain data, where it declares none."""
    try:
        return get_type_hints(function).get("return", Any)
    except TypeError:  # a function written in C
        return Any


@cache
def codec(kind: Loaded) -> Codec:
    """How values of a type are written and read.

    Raises:
        TypeError: Values of the type may hold what is no data.
    """
    schema = narrowed(declared(kind))
    return Codec(SchemaSerializer(schema, {"ser_json_inf_nan": "constants"}), SchemaValidator(schema))


def declared(kind: Loaded) -> Schema:
    """Pydantic's schema of a tuple of one value of a type: alone, a dataclass does not take `CONFIG`."""
    return TypeAdapter(tuple[kind], config=CONFIG).core_schema


def narrowed(schema: Schema, field: str = "") -> Schema:
    """A schema of pydantic's that has data alone, and whose reader ends at the first fault.

    Args:
        schema: The schema, or a part of it.
        field: Field of a dataclass that it is of; empty for none.

    Raises:
        TypeError: The type holds what is no data.
    """
    if isinstance(schema, list):
        return [narrowed(each, field) for each in schema]
    if not isinstance(schema, dict) or "type" not in schema:
        return schema
    if (narrow := NARROW.get(schema["type"])) is None:
        raise TypeError(f"answers must be data of declared types, a schema of {schema['type']} is of none")
    return narrow(schema, field)


def narrow_parts(schema: Schema, field: str) -> Schema:
    """A schema whose parts are narrowed."""
    return {key: narrowed(each, schema.get("name", field)) for key, each in schema.items()}


def narrow_sequence(schema: Schema, field: str) -> Schema:
    """A schema of a list or tuple that ends at its first wrong element."""
    return {**narrow_parts(schema, field), "fail_fast": True}


def narrow_integer(schema: Schema, _: str) -> Schema:
    """A schema of whole numbers that any arithmetic can take."""
    return {**schema, "gt": -MOST_NUMBER, "lt": MOST_NUMBER}


def narrow_dict(schema: Schema, field: str) -> Schema:
    """A schema of few values by name that ends at its first wrong value; hashes of texts cannot be foreseen."""
    if schema["keys_schema"]["type"] not in ("any", "str"):
        raise TypeError("keys must be texts in an answer")
    values = core_schema.no_info_wrap_validator_function(or_end, narrowed(schema["values_schema"], field))
    return {**schema, "values_schema": values, "max_length": MOST_NAMES}


def narrow_union(schema: Schema, field: str) -> Schema:
    """A schema of one of several scalars, which the JSON itself tells apart."""
    if any(each["type"] not in SCALARS for each in schema["choices"]):
        raise TypeError("only scalars may be one of several types in an answer")
    narrow = [each if each["type"] == "str" else narrowed(each, field) for each in schema["choices"]]
    return {**schema, "choices": narrow}


def narrow_function(_: Schema, field: str) -> Schema:
    """A schema of the data that a field for a function may hold; of nothing where it may hold none."""
    if field not in REFERENCES:
        return core_schema.none_schema()
    (schema,) = declared(REFERENCES[field])["items_schema"]
    return narrowed(schema)


def narrow_instance(schema: Schema, _: str) -> Schema:
    """A schema of arrays, for which pydantic has none."""
    if schema["cls"] is not np.ndarray:
        raise TypeError(f"answers must be data of declared types, {schema['cls']} is none")
    return behind_json(read_array, write_array)


def behind_json(read: Callable[..., object], write: Callable[..., object]) -> Schema:
    """Schema of what is read from JSON and the bytes behind it."""
    serialization = core_schema.plain_serializer_function_ser_schema(write, info_arg=True)
    return core_schema.with_info_plain_validator_function(read, serialization=serialization)


def or_end(value: object, read: Callable[[object], object]) -> object:
    """A value of a dict; no other one is read where it is wrong.

    Raises:
        AnswerError: The value is wrong.
    """
    try:
        return read(value)
    except ValidationError as error:
        raise AnswerError("an answer must be as promised, a value by name is not") from error


def raw_of(info: SerializationInfo | ValidationInfo) -> Raw:
    """The bytes behind the JSON of the message that is written or read."""
    raw: Raw = info.context  # type: ignore[assignment]
    return raw


def write_text(text: object, info: SerializationInfo) -> object:
    """A text, without what cannot be written anywhere: half a pair of surrogates."""
    if not isinstance(text, str):
        raise TypeError(f"a text is promised, got {type(text).__name__}")
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= SHORT_TEXT else raw_of(info).keep(memoryview(data))


def read_text(data: object, info: ValidationInfo) -> str:
    """A text.

    Raises:
        AnswerError: The data are no text.
    """
    if isinstance(data, dict):
        return str(raw_of(info).take(data), "utf-8")
    if not isinstance(data, str):
        raise AnswerError(f"an answer must be as promised: a text, got {type(data).__name__}")
    return data


def write_bytes(data: object, info: SerializationInfo) -> object:
    """What stands for bytes."""
    if not isinstance(data, bytes):
        raise TypeError(f"bytes are promised, got {type(data).__name__}")
    return raw_of(info).keep(memoryview(data))


def read_bytes(data: object, info: ValidationInfo) -> bytes:
    """Bytes.

    Raises:
        AnswerError: The data are no bytes.
    """
    if not isinstance(data, dict):
        raise AnswerError(f"an answer must be as promised: bytes, got {type(data).__name__}")
    return bytes(raw_of(info).take(data))


def write_array(array: object, info: SerializationInfo) -> object:
    """What stands for an array: its dtype by name, its shape, and its elements in C order."""
    if not isinstance(array, np.ndarray) or DTYPES.get(array.dtype.name) != array.dtype:
        raise TypeError(f"an array of numbers is promised, got {getattr(array, 'dtype', type(array).__name__)}")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return {"dtype": array.dtype.name, "shape": array.shape, **raw_of(info).keep(flat.data)}


def read_array(data: object, info: ValidationInfo) -> Array:
    """An array over the message itself; of numbers alone, so that no byte is ever taken for the address of an object.

    Raises:
        AnswerError: The data are no array.
    """
    dtype, shape = (data.get("dtype"), data.get("shape")) if isinstance(data, dict) else (None, None)
    if not isinstance(data, dict) or not isinstance(dtype, str) or dtype not in DTYPES:
        raise AnswerError("an answer must be as promised: an array of numbers")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS or not all(map(is_size, shape)):
        raise AnswerError("an answer must be as promised: the shape of an array")
    raw = raw_of(info).take(data)
    if prod(shape) * DTYPES[dtype].itemsize != len(raw):
        raise AnswerError(f"an array of an answer must have the bytes of its shape, it has {len(raw)}")
    return np.ndarray(shape, DTYPES[dtype], raw)


def is_size(value: object) -> bool:
    """Whether a value is a size of an array."""
    return type(value) is int and 0 <= value < MOST_NUMBER


NARROW: dict[str, Callable[[Schema, str], Schema]] = {
    **dict.fromkeys(WITH_PARTS, narrow_parts),
    **dict.fromkeys(("list", "tuple"), narrow_sequence),
    "int": narrow_integer,
    "dict": narrow_dict,
    "union": narrow_union,
    "callable": narrow_function,
    "is-instance": narrow_instance,
    "str": lambda *_: behind_json(read_text, write_text),
    "bytes": lambda *_: behind_json(read_bytes, write_bytes),
}
