"""The memory roof of a payload without contractions: a copy of as many bytes as it writes."""

from autotune.core.payload import Argument, Array, Payload


def copy_payload(count: int, lanes: int) -> Payload:
    """Copy `count` f32, in vectors of `lanes`: nothing transforms as many bytes faster than they are copied."""
    kind, memory = f"vector<{lanes}xf32>", f"memref<{count}xf32>"
    whole = count // lanes * lanes
    text = f"""
  func.func @copy(%x: {memory}, %y: {memory}) {{
    %start = arith.constant 0 : index
    %end = arith.constant {whole} : index
    %last = arith.constant {count} : index
    %one = arith.constant 1 : index
    %step = arith.constant {lanes} : index
    scf.for %i = %start to %end step %step {{
      %v = vector.load %x[%i] : {memory}, {kind}
      vector.store %v, %y[%i] : {memory}, {kind}
    }}
    scf.for %i = %end to %last step %one {{
      %s = memref.load %x[%i] : {memory}
      memref.store %s, %y[%i] : {memory}
    }}
    return
  }}"""
    return Payload(
        "copy", text, "copy", (Argument("x", "input", (count,)), Argument("y", "output", (count,))), reference=same
    )


def same(x: Array) -> tuple[Array, ...]:
    """The oracle of a copy."""
    return (x,)
