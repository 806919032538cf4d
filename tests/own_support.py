"""Users' own scripts for tests: sequences over a payload or an op, with knobs, and what is made of them."""

from functools import lru_cache

from autotune.compiler.script.parametric import read_open_script
from autotune.core.host.machine import this_machine

HANDLE = "!transform.any_op"
SIZE = "!transform.param<i64>"
MATCH = f'%op = transform.structured.match ops{{["linalg.matmul"]}} in %module : ({HANDLE}) -> {HANDLE}'
THREE_WAYS = f"""
    {MATCH}
    %m = transform.tune.knob<"tile_m"> = 8 from options = [4, 8] -> {SIZE}
    %n = transform.tune.knob<"tile_n"> options = {{lb = 16, ub = 48, step = 16}} -> {SIZE}
    %k = transform.tune.knob<"tile_k"> options = [1, 2] -> {SIZE}
    transform.smt.constrain_params(%m, %n) : ({SIZE}, {SIZE}) -> () {{
    ^bb0(%rows: !smt.int, %columns: !smt.int):
      %area = smt.int.mul %rows, %columns
      %most = smt.int.constant 256
      %fits = smt.int.cmp le %area, %most
      smt.assert %fits
    }}
    %tile, %loops:2 = transform.structured.tile_using_for %op tile_sizes [%m, %n]
      : ({HANDLE}, {SIZE}, {SIZE}) -> ({HANDLE}, {HANDLE}, {HANDLE})
    transform.tune.alternatives<"vectors"> {{
      %step, %loop = transform.structured.tile_using_for %tile tile_sizes [0, 0, %k]
        : ({HANDLE}, {SIZE}) -> ({HANDLE}, {HANDLE})
      transform.structured.vectorize %step : {HANDLE}
      transform.yield
    }}, {{
      %u = transform.tune.knob<"unroll"> options = [2, 4] -> {SIZE}
      %step, %loop = transform.structured.tile_using_for %tile tile_sizes [0, 0, 1]
        : ({HANDLE}) -> ({HANDLE}, {HANDLE})
      transform.structured.vectorize %step : {HANDLE}
      transform.loop.unroll %loop {{factor = 2, autotune.sets = {{factor = "unroll"}}}} : {HANDLE}
      transform.yield
    }}, {{
      transform.yield
    }}"""


def own_module(body, *, name="__transform_main", argument="%module", mode="readonly", before=""):
    """A schedule file with one entry, and sequences before it."""
    return f"""module attributes {{transform.with_named_sequence}} {{
{before}  transform.named_sequence @{name}({argument}: {HANDLE} {{transform.{mode}}}) {{
    {body}
    transform.yield
  }}
}}
"""


def knob(name, options, kind=SIZE, selected=""):
    """A knob, whose value has its name."""
    return f'%{name} = transform.tune.knob<"{name}"> {selected} options = {options} -> {kind}\n    '


def tiled(*sizes):
    """The matmul of a payload, tiled by params or numbers."""
    params = ", ".join(SIZE for size in sizes if str(size).startswith("%"))
    loops = sum(size != 0 for size in sizes)
    results = ", ".join([HANDLE] * (1 + loops))
    return f"""{MATCH}
    %tile, %loops:{loops} = transform.structured.tile_using_for %op tile_sizes [{", ".join(map(str, sizes))}]
      : ({", ".join(filter(None, (HANDLE, params)))}) -> ({results})"""


@lru_cache
def read(text):
    """A script as it is read."""
    return read_open_script(text, "mine.mlir")


def space_of(text):
    """The space of a script on this machine."""
    return read(text).space(this_machine())
