"""Code in the LLVM dialect that checks NumPy arrays and calls a program on them; compiled once per process.

The memory layout of tuples and arrays that it relies on is fixed by the ABIs of CPython and NumPy: extensions access it
through macros. Python calls this code like a function of an extension module, without ctypes.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import link

# A plan is a table of 8-byte integers: address of the program, its argument, number of arrays, and a row for each.
CODE, GIVEN, COUNT, ROWS = range(4)
SLOT, OF, RANKS, LENGTHS, BITS, ELEMENTS, LOW, SPAN, ROW = range(9)
# Fields of the plan of a whole call, see `quick_calls.py`.
PLAN, FREE, CONTEXT, READY, WAITING, MAKE, RESULT, SLOW, WAKE = range(9)
WIDTHS = (8, 32, 64)  # bits of integers that may have bounds
FASTCALL, KEYWORDS = 0x80, 0x2  # METH_FASTCALL: arguments as a C array and their number; METH_KEYWORDS: keyword names
POINT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.py_object, ctypes.c_void_p, ctypes.c_int64)


class Method(ctypes.Structure):
    """Definition of an extension function, `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class Entries:
    """Entry points of the code; `point` and `run` return the position of the first unusable array, or the array count.

    Attributes:
        engine: Owner of the machine code.
        point: Function of a tuple, the address of a plan, and the position of the first array; fills the slots.
        run: Method of arrays, whose `self` is a plan; fills the slots, then calls the program.
        serve: Method of inputs, whose `self` is the plan of a whole call; returns the result.
    """

    engine: ExecutionEngine
    point: Callable[[tuple[object, ...], int, int], int]
    run: Method
    serve: Method


@lru_cache(1)
def entries() -> Entries:
    """Compile the code and return its entry points."""
    with context(writes=False):
        engine, find = link(parse(module(), "calls on arrays"), entry="find", level=0)  # level 3 takes thrice as long
    addresses = (ctypes.c_void_p * 3)()
    into = ctypes.c_void_p(ctypes.addressof(addresses))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(find)((ctypes.c_void_p * 1)(ctypes.addressof(into)))
    point, run, serve = addresses
    methods = Method(b"run", run, FASTCALL, None), Method(b"call", serve, FASTCALL | KEYWORDS, None)
    return Entries(engine, POINT(point or 0), *methods)


def module() -> str:
    """Return the code as a module of the LLVM dialect."""
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
  {program_called()}
  llvm.br ^end
^end:
  {of_python("number", "PyLong_FromLongLong")}
  %object = llvm.call %number(%right) : !llvm.ptr, (i64) -> !llvm.ptr
  llvm.return %object : !llvm.ptr
}}
llvm.func @serve(%self: !llvm.ptr, %items: !llvm.ptr, %held: i64, %names: !llvm.ptr) -> !llvm.ptr {{
  %one = llvm.mlir.constant(1 : i64) : i64
  %none = llvm.mlir.constant(0 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  {field("numbers", "self", ITEMS, "!llvm.ptr")}
  {field("whole", "numbers", DATA, "!llvm.ptr")}
  {load("plan", "whole", PLAN, "!llvm.ptr")}
  {load("free", "whole", FREE, "!llvm.ptr")}
  {load("context", "whole", CONTEXT, "!llvm.ptr")}
  {load("ready_at", "whole", READY, "!llvm.ptr")}
  {load("needed", "plan", COUNT)}
  {load("ready", "ready_at", 0)}
  {of_python("length", "PyList_Size")}
  %size = llvm.call %length(%free) : !llvm.ptr, (!llvm.ptr) -> i64
  %is_positional = llvm.icmp "eq" %names, %null : !llvm.ptr
  %are_all = llvm.icmp "eq" %held, %needed : i64
  %is_ready = llvm.icmp "eq" %ready, %one : i64
  %are_given = llvm.and %is_positional, %are_all : i1
  %may = llvm.and %are_given, %is_ready : i1
  llvm.cond_br %may, ^before(%size : i64), ^slow
^before(%end_of: i64):
  {of_python("item", "PyList_GetItem")}
  %at = llvm.sub %end_of, %one : i64
  %is_one = llvm.icmp "sge" %at, %none : i64
  llvm.cond_br %is_one, ^one, ^slow
^one:
  %free_one = llvm.call %item(%free, %at) : !llvm.ptr, (!llvm.ptr, i64) -> !llvm.ptr
  %is_mine = llvm.icmp "eq" %free_one, %context : !llvm.ptr
  llvm.cond_br %is_mine, ^take, ^before(%at : i64)
^take:
  {of_python("set_slice", "PyList_SetSlice")}
  %taken = llvm.call %set_slice(%free, %at, %end_of, %null) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
  %right = llvm.call @look(%items, %held, %plan, %none) : (!llvm.ptr, i64, !llvm.ptr, i64) -> i64
  %are_right = llvm.icmp "eq" %right, %needed : i64
  llvm.cond_br %are_right, ^make, ^give_back(%null, %one : !llvm.ptr, i64)
^make:
  {of_python("call_it", "PyObject_CallNoArgs")}
  {load("make", "whole", MAKE, "!llvm.ptr")}
  %result = llvm.call %call_it(%make) : !llvm.ptr, (!llvm.ptr) -> !llvm.ptr
  %is_none = llvm.icmp "eq" %result, %null : !llvm.ptr
  llvm.cond_br %is_none, ^no_memory, ^compute
^no_memory:
  {of_python("forget", "PyErr_Clear")}
  llvm.call %forget() : !llvm.ptr, () -> ()
  llvm.br ^give_back(%null, %one : !llvm.ptr, i64)
^compute:
  {field("data", "result", DATA, "!llvm.ptr")}
  {load("slot", "whole", RESULT, "!llvm.ptr")}
  llvm.store %data, %slot : !llvm.ptr, !llvm.ptr
  {program_called()}
  llvm.br ^give_back(%result, %none : !llvm.ptr, i64)
^give_back(%found: !llvm.ptr, %is_other: i64):
  {load("waiting_at", "whole", WAITING, "!llvm.ptr")}
  {load("waiting", "waiting_at", 0)}
  {of_python("append", "PyList_Append")}
  %kept = llvm.call %append(%free, %context) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> i32
  %is_waited_for = llvm.icmp "ne" %waiting, %none : i64
  llvm.cond_br %is_waited_for, ^wake, ^end
^wake:
  {of_python("call_wake", "PyObject_CallNoArgs")}
  {of_python("drop", "Py_DecRef")}
  {load("wake", "whole", WAKE, "!llvm.ptr")}
  %woken = llvm.call %call_wake(%wake) : !llvm.ptr, (!llvm.ptr) -> !llvm.ptr
  llvm.call %drop(%woken) : !llvm.ptr, (!llvm.ptr) -> ()
  %was_interrupted = llvm.icmp "eq" %woken, %null : !llvm.ptr
  llvm.cond_br %was_interrupted, ^interrupted, ^end
^interrupted:
  llvm.call %drop(%found) : !llvm.ptr, (!llvm.ptr) -> ()
  llvm.return %null : !llvm.ptr
^end:
  %must_ask = llvm.icmp "eq" %is_other, %one : i64
  llvm.cond_br %must_ask, ^slow, ^return
^return:
  llvm.return %found : !llvm.ptr
^slow:
  {of_python("call_slow", "PyObject_Vectorcall")}
  {load("slow", "whole", SLOW, "!llvm.ptr")}
  %object = llvm.call %call_slow(%slow, %items, %held, %names)
    : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> !llvm.ptr
  llvm.return %object : !llvm.ptr
}}
llvm.func @find(%into: !llvm.ptr) {{
  %point = llvm.mlir.addressof @point : !llvm.ptr
  %run = llvm.mlir.addressof @run : !llvm.ptr
  %serve = llvm.mlir.addressof @serve : !llvm.ptr
  %other = llvm.getelementptr %into[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %third = llvm.getelementptr %into[2] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %point, %into : !llvm.ptr, !llvm.ptr
  llvm.store %run, %other : !llvm.ptr, !llvm.ptr
  llvm.store %serve, %third : !llvm.ptr, !llvm.ptr
  llvm.return
}}
"""


def program_called() -> str:
    """Return IR that calls the program of `%plan` with the GIL released."""
    return f"""\
{load("code", "plan", CODE, "!llvm.ptr")}
  {load("given", "plan", GIVEN, "!llvm.ptr")}
  {of_python("leave", "PyEval_SaveThread")}
  {of_python("come_back", "PyEval_RestoreThread")}
  %thread = llvm.call %leave() : !llvm.ptr, () -> !llvm.ptr
  llvm.call %code(%given) : !llvm.ptr, (!llvm.ptr) -> ()
  llvm.call %come_back(%thread) : !llvm.ptr, (!llvm.ptr) -> ()"""


def of_python(name: str, function: str) -> str:
    """Return IR that defines `%name` as the address of a function of Python's C API."""
    address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
    constant = f"%{name}_address = llvm.mlir.constant({address} : i64) : i64"
    return f"{constant}\n  %{name} = llvm.inttoptr %{name}_address : i64 to !llvm.ptr"


def load(name: str, base: str, number: int, llvm_type: str = "i64") -> str:
    """Return IR that loads field `number` of a plan or of a row."""
    return field(name, base, 8 * number, llvm_type)


def field(name: str, base: str, offset: int, llvm_type: str = "i64") -> str:
    """Return IR that loads a value from `offset` bytes after an address."""
    at = f"%{name}_at_{offset} = llvm.getelementptr %{base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"
    return f"{at}\n  %{name} = llvm.load %{name}_at_{offset} : !llvm.ptr -> {llvm_type}"


def bounds(bits: int) -> str:
    """Return IR that checks that all integers of a width are at least `low` and less than `low + span`."""
    widening = "" if bits == 64 else f"%wide{bits} = llvm.sext %held{bits} : i{bits} to i64\n  "
    wide = f"%held{bits}" if bits == 64 else f"%wide{bits}"
    return f"""
^of_{bits}:
  llvm.br ^whole{bits}(%none, %no : i64, i1)
^whole{bits}(%e{bits}: i64, %out{bits}: i1):
  %at{bits} = llvm.getelementptr %data[%e{bits}] : (!llvm.ptr, i64) -> !llvm.ptr, i{bits}
  %held{bits} = llvm.load %at{bits} : !llvm.ptr -> i{bits}
  {widening}%above{bits} = llvm.sub {wide}, %low : i64
  %is_out{bits} = llvm.icmp "uge" %above{bits}, %span : i64
  %any{bits} = llvm.or %out{bits}, %is_out{bits} : i1
  %next{bits} = llvm.add %e{bits}, %one : i64
  %is_left{bits} = llvm.icmp "ult" %next{bits}, %elements : i64
  llvm.cond_br %is_left{bits}, ^whole{bits}(%next{bits}, %any{bits} : i64, i1), ^seen{bits}
^seen{bits}:
  llvm.cond_br %any{bits}, ^end, ^write"""


HEAD = object.__basicsize__  # size of an object header; its last field is the address of the type
TYPE = HEAD - 8
ITEMS = tuple.__basicsize__  # offset of the items of a tuple
DATA, RANK, SIZES, ELEMENT, FLAGS = (HEAD + offset for offset in (0, 8, 16, 40, 48))  # offsets in PyArrayObject
PLAIN = 0x1 | 0x100  # flags NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED


def holds(array: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> bool:
    """Return whether a contiguous 2-D array, and a tuple that holds it, have the memory layout assumed here."""
    tuple_of_array, int64_at, int32_at = (array,), ctypes.c_int64.from_address, ctypes.c_int32.from_address
    object_address = id(array)
    return (
        ctypes.sizeof(ctypes.c_void_p) == 8
        and int64_at(id(tuple_of_array) + ITEMS).value == object_address
        and int64_at(object_address + TYPE).value == id(np.ndarray)
        and int64_at(object_address + DATA).value == array.ctypes.data
        and int32_at(object_address + RANK).value == 2
        and [int64_at(int64_at(object_address + SIZES).value + 8 * axis).value for axis in (0, 1)] == list(array.shape)
        and int64_at(object_address + ELEMENT).value == id(array.dtype)
        and int32_at(object_address + FLAGS).value & PLAIN == PLAIN
    )


if not holds(np.zeros((2, 3))):
    raise ImportError("arrays must lie as NumPy's ABI says, here they do not; use CPython and a release of NumPy")
