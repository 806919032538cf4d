r"""Serialization of values of declared types as JSON plus raw bytes: a format that holds data and cannot name code.

    value --declared type--> JSON, followed by the bytes of arrays and long strings --same type--> value

The reader states the expected type, and gets a value of it or `AnswerError`. pydantic does the conversion with a
restricted schema of the type, in which only data can be represented, and validation stops at the first error: with all
errors collected, 16 MiB of wrong numbers cost 17 s and 2.6 GB.
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

Schema: TypeAlias = Any  # pydantic-core schema: nested dicts
Loaded: TypeAlias = Any  # a value of the requested type, which static type checkers cannot express
LENGTH = struct.Struct("!Q")
ALIGNMENT = 16  # of every array, relative to the first byte of the message
SHORT_TEXT = 1 << 12  # bytes up to which a string is stored in the JSON
MOST_JSON = 1 << 24  # bytes: a list of small numbers takes forty times as much memory, and two seconds
MOST_NAMES = 1 << 12  # entries of a dict
MOST_NUMBER = 1 << 64
MOST_DIMENSIONS = 32
MOST_CHARACTERS = 200  # characters
NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", ml_dtypes.bfloat16),
)
DTYPES = {np.dtype(number).name: np.dtype(number) for number in NUMBERS}
REFERENCES = {"reference": ContractionOracle}  # data class that stands for a function, by field
CONFIG = ConfigDict(strict=True, ser_json_inf_nan="constants", arbitrary_types_allowed=True)
SCALARS = ("bool", "float", "int", "literal", "none", "str")
WITH_PARTS = (
    *("any", "bool", "dataclass", "dataclass-args", "dataclass-field", "default", "definition-ref", "definitions"),
    *("float", "literal", "none", "nullable"),
)


class Raw:
    """Raw bytes that follow the JSON of a message.

    Attributes:
        parts: Written blocks and their padding, in order.
    """

    def __init__(self, data: memoryview) -> None:
        """Start with the raw bytes of a message to be read; with an empty view for a message to be written."""
        self.parts: list[memoryview] = []
        self._size = 0
        self._data, self._left = data, len(data)

    def keep(self, data: memoryview) -> dict[str, Any]:
        """Append a block of bytes, padded to `ALIGNMENT`; return its reference in the JSON: offset and size."""
        reference = {"at": self._size, "bytes": len(data)}
        self.parts += [data, memoryview(bytes(-len(data) % ALIGNMENT))]
        self._size += len(data) + -len(data) % ALIGNMENT
        return reference

    def take(self, about: Mapping[str, object]) -> memoryview:
        """Return the bytes of a reference; all references together may take no more bytes than the message has.

        Raises:
            AnswerError: The reference is malformed or out of range, or the total is exceeded.
        """
        at, size = about.get("at"), about.get("bytes")
        if type(at) is not int or type(size) is not int or at < 0 or not 0 <= size <= self._left:
            raise AnswerError("raw bytes of an answer must be among those that came")
        self._left -= size
        view = self._data[at : at + size]
        if len(view) != size:
            raise AnswerError("raw bytes of an answer must be among those that came")
        return view


@dataclass(frozen=True)
class Codec:
    """Serializer and validator of one type."""

    writer: SchemaSerializer
    reader: SchemaValidator


def dump(value: object, kind: object) -> list[memoryview]:
    """Serialize a value of type `kind` to the parts of a message.

    Raises:
        Exception: The value has another type, which pydantic names.
    """
    raw = Raw(memoryview(b""))
    text = codec(kind).writer.to_json((value,), context=raw, warnings="none")
    text += b" " * (-(LENGTH.size + len(text)) % ALIGNMENT)
    return [memoryview(LENGTH.pack(len(text)) + text), *raw.parts]


def load(data: bytes | memoryview, kind: object) -> Loaded:
    """Deserialize a value of type `kind`; its arrays are read-only views of the message.

    Raises:
        AnswerError: The message holds no such value.
    """
    view = memoryview(data)
    try:
        (length,) = LENGTH.unpack_from(view)
        if length > min(MOST_JSON, len(view) - LENGTH.size):
            raise AnswerError(f"JSON of an answer must be of at most {MOST_JSON} bytes that came, it has {length}")
        text, raw_bytes = view[LENGTH.size : LENGTH.size + length], view[LENGTH.size + length :]
        (value,) = codec(kind).reader.validate_json(bytes(text), strict=True, context=Raw(raw_bytes))
    except AnswerError:
        raise
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise AnswerError(f"an answer must be as promised; {where}: {first['msg']}"[:MOST_CHARACTERS]) from error
    except Exception as error:  # too large for memory, or rejected by a constructor of ours
        raise AnswerError(
            f"an answer must be as promised; {type(error).__name__}: {error}"[:MOST_CHARACTERS]
        ) from error
    return value


@cache
def promised(function: Callable[..., object]) -> object:
    """Return the declared return type of a function; `Any`, which means plain JSON data, if it declares none."""
    try:
        return get_type_hints(function).get("return", Any)
    except TypeError:  # a function written in C
        return Any


@cache
def codec(kind: Loaded) -> Codec:
    """Build the serializer and validator of a type.

    Raises:
        TypeError: Values of the type may contain something other than data.
    """
    schema = narrowed(declared(kind))
    return Codec(SchemaSerializer(schema, {"ser_json_inf_nan": "constants"}), SchemaValidator(schema))


def declared(kind: Loaded) -> Schema:
    """Return pydantic's schema of a tuple of one value of a type; a bare dataclass would ignore `CONFIG`."""
    return TypeAdapter(tuple[kind], config=CONFIG).core_schema


def narrowed(schema: Schema, field: str = "") -> Schema:
    """Restrict a pydantic schema to data, with validation that stops at the first error.

    Args:
        schema: The schema, or a part of it.
        field: Name of the dataclass field that it belongs to; empty if there is none.

    Raises:
        TypeError: Values of the type may contain something other than data.
    """
    if isinstance(schema, list):
        return [narrowed(each, field) for each in schema]
    if not isinstance(schema, dict) or "type" not in schema:
        return schema
    if (narrow := NARROW.get(schema["type"])) is None:
        raise TypeError(f"answers must be data of declared types, a schema of {schema['type']} is of none")
    return narrow(schema, field)


def narrow_parts(schema: Schema, field: str) -> Schema:
    """Restrict all parts of a schema."""
    return {key: narrowed(each, schema.get("name", field)) for key, each in schema.items()}


def narrow_sequence(schema: Schema, field: str) -> Schema:
    """Restrict the schema of a list or tuple; validation stops at the first invalid element."""
    return {**narrow_parts(schema, field), "fail_fast": True}


def narrow_integer(schema: Schema, _: str) -> Schema:
    """Restrict the schema of integers to magnitudes below `MOST_NUMBER`."""
    return {**schema, "gt": -MOST_NUMBER, "lt": MOST_NUMBER}


def narrow_dict(schema: Schema, field: str) -> Schema:
    """Restrict the schema of a dict: string keys, few entries, stop at the first invalid value.

    Only strings have randomized hashes, so that no sender can construct colliding keys.
    """
    if schema["keys_schema"]["type"] not in ("any", "str"):
        raise TypeError("keys must be texts in an answer")
    values = core_schema.no_info_wrap_validator_function(or_end, narrowed(schema["values_schema"], field))
    return {**schema, "values_schema": values, "max_length": MOST_NAMES}


def narrow_union(schema: Schema, field: str) -> Schema:
    """Restrict the schema of a union to scalars, which JSON itself distinguishes."""
    if any(each["type"] not in SCALARS for each in schema["choices"]):
        raise TypeError("only scalars may be one of several types in an answer")
    choices = [each if each["type"] == "str" else narrowed(each, field) for each in schema["choices"]]
    return {**schema, "choices": choices}


def narrow_function(_: Schema, field: str) -> Schema:
    """Replace the schema of a function by that of the data class for its field in `REFERENCES`, or of `None`."""
    if field not in REFERENCES:
        return core_schema.none_schema()
    (schema,) = declared(REFERENCES[field])["items_schema"]
    return narrowed(schema)


def narrow_instance(schema: Schema, _: str) -> Schema:
    """Return the schema of NumPy arrays, for which pydantic has none."""
    if schema["cls"] is not np.ndarray:
        raise TypeError(f"answers must be data of declared types, {schema['cls']} is none")
    return behind_json(read_array, write_array)


def behind_json(read: Callable[..., object], write: Callable[..., object]) -> Schema:
    """Return a schema of values that are read from, and written to, JSON and the raw bytes behind it."""
    serialization = core_schema.plain_serializer_function_ser_schema(write, info_arg=True)
    return core_schema.with_info_plain_validator_function(read, serialization=serialization)


def or_end(value: object, read: Callable[[object], object]) -> object:
    """Validate a value of a dict; raise an error that stops the validation of the whole message.

    Raises:
        AnswerError: The value is invalid.
    """
    try:
        return read(value)
    except ValidationError as error:
        raise AnswerError("an answer must be as promised, a value by name is not") from error


def raw_of(info: SerializationInfo | ValidationInfo) -> Raw:
    """Return the raw bytes of the message that is being written or read."""
    raw: Raw = info.context  # type: ignore[assignment]
    return raw


def write_text(text: object, info: SerializationInfo) -> object:
    """Serialize a string, with lone surrogates replaced; a long one goes to the raw bytes."""
    if not isinstance(text, str):
        raise TypeError(f"a text is promised, got {type(text).__name__}")
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= SHORT_TEXT else raw_of(info).keep(memoryview(data))


def read_text(data: object, info: ValidationInfo) -> str:
    """Deserialize a string.

    Raises:
        AnswerError: The data are not a string.
    """
    if isinstance(data, dict):
        return str(raw_of(info).take(data), "utf-8")
    if not isinstance(data, str):
        raise AnswerError(f"an answer must be as promised: a text, got {type(data).__name__}")
    return data


def write_bytes(data: object, info: SerializationInfo) -> object:
    """Serialize bytes: the reference to their block."""
    if not isinstance(data, bytes):
        raise TypeError(f"bytes are promised, got {type(data).__name__}")
    return raw_of(info).keep(memoryview(data))


def read_bytes(data: object, info: ValidationInfo) -> bytes:
    """Deserialize bytes.

    Raises:
        AnswerError: The data are not a reference to a block of bytes.
    """
    if not isinstance(data, dict):
        raise AnswerError(f"an answer must be as promised: bytes, got {type(data).__name__}")
    return bytes(raw_of(info).take(data))


def write_array(array: object, info: SerializationInfo) -> object:
    """Serialize an array: the name of its dtype, its shape, and a reference to its elements in C order."""
    if not isinstance(array, np.ndarray) or DTYPES.get(array.dtype.name) != array.dtype:
        raise TypeError(f"an array of numbers is promised, got {getattr(array, 'dtype', type(array).__name__)}")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return {"dtype": array.dtype.name, "shape": array.shape, **raw_of(info).keep(flat.data)}


def read_array(data: object, info: ValidationInfo) -> Array:
    """Deserialize an array as a view of the message.

    Only numeric dtypes are accepted, so that no bytes are ever interpreted as the address of an object.

    Raises:
        AnswerError: The data are not an array.
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
    """Return whether a value is a valid dimension size of an array."""
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
