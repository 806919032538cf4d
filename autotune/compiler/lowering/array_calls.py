"""Calls of compiled code on arrays of NumPy: compiled code looks at all arrays, points to them, and calls the program.

Python takes half a microsecond for each array to do so, this code some nanoseconds; it is compiled once a process.

Where CPython and NumPy keep what this code reads of a tuple of arrays is fixed by both ABIs: extensions read it through
macros that are compiled into them. Python calls it as it calls functions of extensions, without ctypes between.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import BoundProgram, link
from autotune.core.arrays import Accepted
from autotune.core.payload import Array

# A plan is whole numbers of 8 bytes: where the program is, what it is called with, how many arrays, and a row for each.
CODE, GIVEN, COUNT, ROWS = range(4)
SLOT, OF, RANKS, LENGTHS, BITS, ELEMENTS, LOW, SPAN, ROW = range(9)
WIDTHS = (8, 32, 64)  # bits of whole numbers that have bounds
FEW = 1024  # whole numbers that this code, which is compiled in a hurry, looks at sooner than NumPy
NEVER = -1  # a rank that no array has: Python looks at each
POINT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.py_object, ctypes.c_void_p, ctypes.c_int64)
FASTCALL = 0x80  # METH_FASTCALL: arguments lie in an array, their number comes with it
NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class ArrayCall:
    """Calls of a program on arrays that lie anywhere; one call at a time.

    Args:
        bound: The program; whatever it is not given here it finds in slots that are filled already.
        slots: Addresses of the arrays' elements, as the program reads them.
        wanted: What the array of each slot must be.

    Attributes:
        count: How many arrays a call takes.
        direct: The same as `run` but that it gives the number of the first array that cannot be read as it lies, and
            computes nothing then; `count` where there is none.
    """

    def __init__(self, bound: BoundProgram, slots: Sequence[ctypes.c_void_p], wanted: Sequence[Accepted]) -> None:
        self._bound, self._slots, self._wanted, self.count = bound, slots, wanted, len(wanted)
        self._sizes = [np.array(each.shape, np.int64) for each in wanted]
        rows = [row(*each) for each in zip(slots, wanted, self._sizes, strict=True)]
        numbers = (bound.code, bound.given, self.count, *(number for each in rows for number in each))
        self._numbers = np.array([number % (1 << 64) for number in numbers], np.uint64)
        self._plan = self._numbers.ctypes.data
        self._code = entries()
        self.direct = NEW(ctypes.addressof(self._code.run), self._numbers, None)

    def run(self, *arrays: object) -> None:
        """Compute once, on an array for each slot.

        Raises:
            AutotuneError: An array is of another shape or kind, or out of range; nothing is run.
            NotExactlyError: An array is for another program.
        """
        wrong = self.direct(*arrays)
        if wrong != self.count:
            self.run_from(wrong, arrays)

    def run_from(self, wrong: int, arrays: tuple[object, ...]) -> None:
        """Compute once, where `direct` gave the number of an array that cannot be read as it lies."""
        copies = self._convert(arrays, wrong)
        self._bound.run()
        del copies  # which the program has read by now

    def point(self, arrays: tuple[object, ...]) -> list[Array]:
        """Point to arrays as `run` does, and compute nothing.

        Returns:
            Copies of arrays that cannot be read as they lie; they must live as long as the program may read them.

        Raises:
            AutotuneError: An array is of another shape or kind, or out of range.
            NotExactlyError: An array is for another program.
        """
        return self._convert(arrays, self._code.point(arrays, self._plan, 0))

    def _convert(self, arrays: tuple[object, ...], wrong: int) -> list[Array]:
        """Point to a copy of an array that cannot be read as it lies, and to the arrays behind it."""
        copies: list[Array] = []
        while wrong != self.count:
            copies.append(self._wanted[wrong].convert(arrays[wrong]))
            self._slots[wrong].value = copies[-1].ctypes.data
            wrong = self._code.point(arrays, self._plan, wrong + 1)
        return copies


def row(slot: ctypes.c_void_p, wanted: Accepted, sizes: Array) -> tuple[int, ...]:
    """What compiled code knows of an array; without bounds its numbers have no bits."""
    low, high = wanted.bounds or (0, 0)
    bits = 8 * wanted.dtype.itemsize if wanted.bounds else 0
    elements = int(sizes.prod())
    rank = NEVER if bits and elements > FEW else len(sizes)
    return (ctypes.addressof(slot), id(wanted.dtype), rank, sizes.ctypes.data, bits, elements, low, high - low)


class Method(ctypes.Structure):
    """A function of an extension, `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class Entries:
    """The code; each of its functions gives the number of the first array that cannot be read, or how many there are.

    Attributes:
        engine: Owns the code.
        point: Takes a tuple, the address of a plan, and the number of the array to begin with; points to arrays.
        run: Takes arrays, and has a plan as what it is bound to; points to them, then calls the program.
    """

    engine: ExecutionEngine
    point: Callable[[tuple[object, ...], int, int], int]
    run: Method


@lru_cache(1)
def entries() -> Entries:
    """The code, compiled."""
    with context(writes=False):
        engine, find = link(parse(module(), "calls on arrays"), entry="find", level=0)  # the others take thrice as long
    found = (ctypes.c_void_p * 2)()
    into = ctypes.c_void_p(ctypes.addressof(found))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(find)((ctypes.c_void_p * 1)(ctypes.addressof(into)))
    point, run = found
    return Entries(engine, POINT(point or 0), Method(b"run", run, FASTCALL, None))


def module() -> str:
    """The code, in the LLVM dialect."""
    cases = ", ".join(f"{bits}: ^of_{bits}" for bits in WIDTHS)
    return f"""
llvm.func @look(%items: !llvm.ptr, %held: i64, %plan: !llvm.ptr, %first: i64) -> i64 {{
  %none = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %row_length = llvm.mlir.constant({ROW} : i64) : i64
  %no = llvm.mlir.constant(false) : i1
  %plain = llvm.mlir.constant({PLAIN} : i32) : i32
  %array_type = llvm.mlir.constant({id(np.ndarray)} : i64) : i64
  {load("wanted", "plan", COUNT)}
  %count = llvm.intr.umin(%wanted, %held) : (i64, i64) -> i64
  %rows = llvm.getelementptr %plan[{ROWS}] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.br ^each(%first : i64)
^each(%n: i64):
  %is_more = llvm.icmp "ult" %n, %count : i64
  llvm.cond_br %is_more, ^look, ^end
^look:
  %item = llvm.getelementptr %items[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %array = llvm.load %item : !llvm.ptr -> !llvm.ptr
  %begin = llvm.mul %n, %row_length : i64
  %row = llvm.getelementptr %rows[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  {field("type", "array", TYPE)}
  %is_array = llvm.icmp "eq" %type, %array_type : i64
  llvm.cond_br %is_array, ^kind, ^end
^kind:
  {field("element", "array", ELEMENT)}
  {load("its_element", "row", OF)}
  %is_element = llvm.icmp "eq" %element, %its_element : i64
  {field("flags", "array", FLAGS, "i32")}
  %both = llvm.and %flags, %plain : i32
  %is_plain = llvm.icmp "eq" %both, %plain : i32
  {field("short_rank", "array", RANK, "i32")}
  %rank = llvm.zext %short_rank : i32 to i64
  {load("its_rank", "row", RANKS)}
  %is_rank = llvm.icmp "eq" %rank, %its_rank : i64
  %is_kind = llvm.and %is_element, %is_plain : i1
  %is_like = llvm.and %is_kind, %is_rank : i1
  {field("sizes", "array", SIZES, "!llvm.ptr")}
  {load("its_sizes", "row", LENGTHS, "!llvm.ptr")}
  llvm.cond_br %is_like, ^axis(%none : i64), ^end
^axis(%a: i64):
  %is_axis = llvm.icmp "ult" %a, %rank : i64
  llvm.cond_br %is_axis, ^size, ^shaped
^size:
  %size_at = llvm.getelementptr %sizes[%a] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %size = llvm.load %size_at : !llvm.ptr -> i64
  %its_size_at = llvm.getelementptr %its_sizes[%a] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %its_size = llvm.load %its_size_at : !llvm.ptr -> i64
  %is_size = llvm.icmp "eq" %size, %its_size : i64
  %next_axis = llvm.add %a, %one : i64
  llvm.cond_br %is_size, ^axis(%next_axis : i64), ^end
^shaped:
  {field("data", "array", DATA, "!llvm.ptr")}
  {load("slot", "row", SLOT, "!llvm.ptr")}
  {load("bits", "row", BITS)}
  {load("elements", "row", ELEMENTS)}
  {load("low", "row", LOW)}
  {load("span", "row", SPAN)}
  llvm.switch %bits : i64, ^write [{cases}]
{"".join(map(bounds, WIDTHS))}
^write:
  llvm.store %data, %slot : !llvm.ptr, !llvm.ptr
  %next = llvm.add %n, %one : i64
  llvm.br ^each(%next : i64)
^end:
  llvm.return %n : i64
}}
llvm.func @point(%arrays: !llvm.ptr, %plan: !llvm.ptr, %first: i64) -> i64 {{
  {field("held", "arrays", HEAD)}
  %items = llvm.getelementptr %arrays[{ITEMS}] : (!llvm.ptr) -> !llvm.ptr, i8
  %right = llvm.call @look(%items, %held, %plan, %first) : (!llvm.ptr, i64, !llvm.ptr, i64) -> i64
  llvm.return %right : i64
}}
llvm.func @run(%plan_array: !llvm.ptr, %items: !llvm.ptr, %held: i64) -> !llvm.ptr {{
  {field("plan", "plan_array", DATA, "!llvm.ptr")}
  %first = llvm.mlir.constant(0 : i64) : i64
  %right = llvm.call @look(%items, %held, %plan, %first) : (!llvm.ptr, i64, !llvm.ptr, i64) -> i64
  {load("count", "plan", COUNT)}
  %is_right = llvm.icmp "eq" %right, %count : i64
  llvm.cond_br %is_right, ^call, ^end
^call:
  {load("code", "plan", CODE, "!llvm.ptr")}
  {load("given", "plan", GIVEN, "!llvm.ptr")}
  {of_python("leave", "PyEval_SaveThread")}
  {of_python("come_back", "PyEval_RestoreThread")}
  %thread = llvm.call %leave() : !llvm.ptr, () -> !llvm.ptr
  llvm.call %code(%given) : !llvm.ptr, (!llvm.ptr) -> ()
  llvm.call %come_back(%thread) : !llvm.ptr, (!llvm.ptr) -> ()
  llvm.br ^end
^end:
  {of_python("number", "PyLong_FromLongLong")}
  %object = llvm.call %number(%right) : !llvm.ptr, (i64) -> !llvm.ptr
  llvm.return %object : !llvm.ptr
}}
llvm.func @find(%into: !llvm.ptr) {{
  %point = llvm.mlir.addressof @point : !llvm.ptr
  %run = llvm.mlir.addressof @run : !llvm.ptr
  %other = llvm.getelementptr %into[1] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %point, %into : !llvm.ptr, !llvm.ptr
  llvm.store %run, %other : !llvm.ptr, !llvm.ptr
  llvm.return
}}
"""


def of_python(name: str, function: str) -> str:
    """The address of a function of Python's C interface."""
    address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
    whole = f"%{name}_address = llvm.mlir.constant({address} : i64) : i64"
    return f"{whole}\n  %{name} = llvm.inttoptr %{name}_address : i64 to !llvm.ptr"


def load(name: str, base: str, number: int, kind: str = "i64") -> str:
    """Read a number of a plan or of a row."""
    return field(name, base, 8 * number, kind)


def field(name: str, base: str, offset: int, kind: str = "i64") -> str:
    """Read what lies so many bytes behind an address."""
    at = f"%{name}_at_{offset} = llvm.getelementptr %{base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"
    return f"{at}\n  %{name} = llvm.load %{name}_at_{offset} : !llvm.ptr -> {kind}"


def bounds(bits: int) -> str:
    """Blocks that look at whole numbers of a width: `span` of them, from `low` on, are within bounds."""
    whole = "" if bits == 64 else f"%wide{bits} = llvm.sext %held{bits} : i{bits} to i64\n  "
    wide = f"%held{bits}" if bits == 64 else f"%wide{bits}"
    return f"""
^of_{bits}:
  llvm.br ^whole{bits}(%none, %no : i64, i1)
^whole{bits}(%e{bits}: i64, %out{bits}: i1):
  %at{bits} = llvm.getelementptr %data[%e{bits}] : (!llvm.ptr, i64) -> !llvm.ptr, i{bits}
  %held{bits} = llvm.load %at{bits} : !llvm.ptr -> i{bits}
  {whole}%above{bits} = llvm.sub {wide}, %low : i64
  %is_out{bits} = llvm.icmp "uge" %above{bits}, %span : i64
  %any{bits} = llvm.or %out{bits}, %is_out{bits} : i1
  %next{bits} = llvm.add %e{bits}, %one : i64
  %is_left{bits} = llvm.icmp "ult" %next{bits}, %elements : i64
  llvm.cond_br %is_left{bits}, ^whole{bits}(%next{bits}, %any{bits} : i64, i1), ^seen{bits}
^seen{bits}:
  llvm.cond_br %any{bits}, ^end, ^write"""


HEAD = object.__basicsize__  # of every object; its last field is the address of its type
TYPE = HEAD - 8
ITEMS = tuple.__basicsize__  # addresses of a tuple's items
DATA, RANK, SIZES, ELEMENT, FLAGS = (HEAD + offset for offset in (0, 8, 16, 40, 48))  # of an array of NumPy
PLAIN = 0x1 | 0x100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, in the field of flags


def holds(array: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> bool:
    """Tell whether an array with two sizes, plain in memory, and a tuple with it lie as this module has them."""
    held, long, short = (array,), ctypes.c_int64.from_address, ctypes.c_int32.from_address
    where = id(array)
    return (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and long(id(held) + ITEMS).value == where
        and long(where + TYPE).value == id(np.ndarray)
        and long(where + DATA).value == array.ctypes.data
        and short(where + RANK).value == 2
        and [long(long(where + SIZES).value + 8 * axis).value for axis in (0, 1)] == list(array.shape)
        and long(where + ELEMENT).value == id(array.dtype)
        and short(where + FLAGS).value & PLAIN == PLAIN
    )


if not holds(np.zeros((2, 3))):
    raise ImportError("arrays must lie as NumPy's ABI says, here they do not; use CPython and a release of NumPy")
