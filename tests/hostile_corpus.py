"""Bundles, payloads, scripts and stores of somebody who means harm; each names what it attacks.

A bundle is one that `tune` wrote, changed and signed anew, as a careful forger would: hashes match.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bundle_support import edit_file, edit_manifest

SPEC = "matmul,m=9,n=24,k=8"
SIGNATURE = "%a: memref<17x9xf32>, %b: memref<9x24xf32>, %c: memref<17x24xf32>"
ESCAPES = {
    "colour": "\x1b[31mRED",
    "title": "\x1b]0;owned\x07",
    "screen": "\x1b[2J\x1b[H",
    "bell": "\x07" * 20,
    "carriage-return": "fine\rautotune: all is well",
    "backspace": "evil\b\b\b\bfine",
    "c1": "\x9b31m",
    "right-to-left": "\u202eevil",
    "newline": "fine\nautotune: all is well",
    "nul": "a\x00b",
}


@dataclass(frozen=True)
class Attack:
    """An input that means harm.

    Attributes:
        name: Name of the case.
        attacks: What it is after, in a few words.
        make: Writes the input into a folder, which for bundles holds one that is right; gives the command line.
        codes: Exit codes that are an answer.
        words: Part of what is said.
    """

    name: str
    attacks: str
    make: Callable[[Path], list[str]]
    codes: tuple[int, ...] = (2,)
    words: str = ""


def spoilt(change: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    """A bundle after a change."""

    def make(folder: Path) -> list[str]:
        change(folder)
        return ["replay", str(folder), "--timeout", "20"]

    return make


def payload(text: str | bytes) -> Callable[[Path], list[str]]:
    """A payload's file."""

    def make(folder: Path) -> list[str]:
        path = folder / "mine.mlir"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return tune(path)

    return make


def tune(path: Path) -> list[str]:
    """The command line that tunes a file with hardly any effort."""
    return ["tune", str(path), "--trials", "1", "--timeout", "2", "--bundle", str(path.parent / "out")]


def manifest(change: Callable[[dict], object]) -> Callable[[Path], list[str]]:
    """A bundle with another manifest."""
    return spoilt(lambda folder: edit_manifest(folder, lambda m: change(m) and None))


def raw_manifest(change: Callable[[str], str | bytes]) -> Callable[[Path], list[str]]:
    """A bundle whose manifest is another text."""

    def edit(folder: Path) -> None:
        path = folder / "manifest.json"
        found = change(path.read_text())
        path.write_bytes(found.encode() if isinstance(found, str) else found)

    return spoilt(edit)


def function(body: str, before: str = "", attributes: str = "") -> str:
    """A module with the entry of the bundle's payload."""
    return f"{before}\nfunc.func @matmul({SIGNATURE}) {attributes}{{\n{body}\nreturn\n}}"


# What no program may hold: calls to what is not its own, addresses, and words to the linker.
OPS = {
    "call-of-a-number": (
        "jumping to an address",
        "%n = arith.constant 4096 : i64\n%f = builtin.unrealized_conversion_cast %n : i64 to (() -> ())\n"
        "func.call_indirect %f() : () -> ()",
        "",
    ),
    "call-through-a-value": ("jumping to an address", "%f = func.constant @matmul : ({}) -> ()", ""),
    "memory-of-a-number": (
        "writing anywhere",
        "%n = arith.constant 4096 : i64\n%m = builtin.unrealized_conversion_cast %n : i64 to memref<1xf32>",
        "",
    ),
    "address-of-an-array": (
        "finding where things lie",
        "%n = memref.extract_aligned_pointer_as_index %a : memref<17x9xf32> -> index",
        "",
    ),
    "array-of-arrays": ("making addresses of bytes", "%m = memref.alloc() : memref<1xmemref<1xf32>>", ""),
    "outside-function": (
        "calling the C library",
        "func.call @system() : () -> ()",
        "func.func private @system()",
    ),
    "outside-array": (
        "reading the process's variables",
        "%m = memref.get_global @environ : memref<1xi64>",
        'memref.global "private" @environ : memref<1xi64>',
    ),
    "pointer": ("making a pointer", "%n = llvm.mlir.zero : !llvm.ptr", ""),
    "load": ("reading through a pointer", "%n = llvm.mlir.zero : !llvm.ptr\n%x = llvm.load %n : !llvm.ptr -> i8", ""),
    "assembly": ("calling the system", 'llvm.inline_asm "syscall", "" : () -> ()', ""),
    "intrinsic": ("calling an intrinsic", '"llvm.intr.trap"() : () -> ()', ""),
    "print": ("writing to the terminal", "%x = arith.constant 1.0 : f32\nvector.print %x : f32", ""),
    "async": ("starting threads", "%t = async.execute { async.yield }", ""),
    "gpu": ("another device", "gpu.barrier", ""),
    "openmp": ("starting threads", "omp.barrier", ""),
    "unknown-op": ("an op nobody knows", '"evil.op"() : () -> ()', ""),
    "constructor": (
        "running before it is called",
        "",
        "llvm.mlir.global_ctors ctors = [@matmul], priorities = [0 : i32], data = [#llvm.zero]",
    ),
}
ATTRIBUTES = {
    "passthrough": ("telling LLVM how to compile", 'attributes {passthrough = ["naked"]} '),
    "linkage": ("replacing a symbol of others", "attributes {llvm.linkage = #llvm.linkage<weak>} "),
    "personality": ("a handler of its own", "attributes {personality = @matmul} "),
    "section": ("another section", 'attributes {llvm.section = ".init_array"} '),
}
PLACES = ("payload.mlir", "tagged.mlir", "tasks/{tag}.mlir")


def programs() -> list[Attack]:
    """Programs that do more than compute, in every file of a bundle that holds one, and as a payload of their own."""
    found = []
    for name, (attacks, body, before) in OPS.items():
        text = function(body.replace("{}", re.sub(r"%\w+: ", "", SIGNATURE)), before)
        found += [Attack(f"{name}-in-{place}", attacks, spoilt(replace_file(place, text))) for place in PLACES]
        found.append(Attack(f"{name}-as-payload", attacks, payload(text)))
    for name, (attacks, attributes) in ATTRIBUTES.items():
        text = function("", attributes=attributes)
        found += [Attack(f"{name}-in-{place}", attacks, spoilt(replace_file(place, text))) for place in PLACES[:2]]
        found.append(Attack(f"{name}-as-payload", attacks, payload(text)))
    for name, words in (("module_asm", '["call system"]'), ("target_triple", '"sparc"'), ("data_layout", '"p:8:8"')):
        text = f"module attributes {{llvm.{name} = {words}}} {{\n{function('')}\n}}"
        found.append(Attack(f"{name}-in-tagged.mlir", "text for the assembler", spoilt(replace_file(PLACES[1], text))))
        found.append(Attack(f"{name}-as-payload", "text for the assembler", payload(text)))
    return found


def replace_file(name: str, text: str) -> Callable[[Path], None]:
    """Write a file of a bundle anew, signed."""

    def edit(folder: Path) -> None:
        tag = next(iter(json.loads((folder / "manifest.json").read_text())["tasks"]))
        edit_file(folder, name.format(tag=tag), text)

    return edit


SCRIPT = """module attributes {transform.with_named_sequence} {
  MORE
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.consumed}) {
    BODY
    transform.yield
  }
}"""
PASS = '%0 = transform.apply_registered_pass "NAME" to %m : (!transform.any_op) -> !transform.any_op'
PASSES = (
    *("print-op-graph", "view-op-graph", "print-ir", "gpu-module-to-binary", "convert-to-llvm"),
    *("transform-interpreter", "transform-preload-library", "external-pass", "inline;cse"),
    *("snapshot-op-locations", "strip-debuginfo", "async-parallel-for", "convert-linalg-to-std", "allow-unregistered"),
)
MOVES = {
    "print": "transform.print %m : !transform.any_op",
    "remark": 'transform.debug.emit_remark_at %m, "owned" : !transform.any_op',
    "pdl": "%0 = pdl_match @any in %m : (!transform.any_op) -> !transform.any_op",
    "cast-and-call": "%0 = transform.func.cast_and_call @system() after %m : (!transform.any_op) -> !transform.any_op",
    "conversion": "transform.apply_conversion_patterns to %m { transform.apply_conversion_patterns.func.func_to_llvm } "
    ": !transform.any_op",
    "gpu": "%0 = transform.gpu.map_forall_to_blocks %m : (!transform.any_op) -> !transform.any_op",
    "unknown": '"transform.evil"() : () -> ()',
    "payload-op": "%0 = arith.constant 1 : i64",
    "unroll-2^63": "transform.loop.unroll %m {factor = 9223372036854775807 : i64} : !transform.any_op",
    "unroll-2^25": "transform.loop.unroll %m {factor = 33554432 : i64} : !transform.any_op",
    "jam-2^25": "transform.loop.unroll_and_jam %m {factor = 33554432 : i64} : !transform.any_op",
    "vector-2^40": "transform.structured.vectorize %m vector_sizes [1048576, 1048576] : !transform.any_op",
    "pack-2^40": "%p = transform.structured.pack %m packed_sizes = [1048576, 1048576] "
    ': (!transform.any_op) -> !transform.op<"linalg.generic">',
}
DOUBLING = {  # of which MLIR goes through every copy
    "attributes": "#a0 = [1, 2]\n"
    + "".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]\n" for i in range(1, 60))
    + "module attributes {a.b = #a59} {}\n",
    "types": "!a0 = tuple<f32>\n"
    + "".join(f"!a{i} = tuple<!a{i - 1}, !a{i - 1}>\n" for i in range(1, 60))
    + "func.func @f(%x: !a59) { return }\n",
    "functions": "!a0 = (f32) -> f32\n"
    + "".join(f"!a{i} = (!a{i - 1}, !a{i - 1}) ->\n(!a{i - 1})\n" for i in range(1, 60))
    + "func.func @f(%x: !a59) { return }\n",
    "locations": "module {} loc(#loc59)\n#loc0 = loc(unknown)\n"
    + "".join(f"#loc{i} = loc(callsite(#loc{i - 1} at #loc{i - 1}))\n" for i in range(1, 60)),
}


def scripts() -> list[Attack]:
    """Scripts that ask for more than a schedule needs."""
    found = []
    for name in PASSES:
        text = SCRIPT.replace("MORE", "").replace("BODY", PASS.replace("NAME", name))
        edit = spoilt(replace_file("schedule.mlir", text))
        found.append(Attack(f"pass-{name}", "running any pass of the compiler", edit))
    for name, body in MOVES.items():
        text = SCRIPT.replace("MORE", "").replace("BODY", body)
        found.append(Attack(f"move-{name}", "an op beyond schedules", spoilt(replace_file("schedule.mlir", text))))
    return found


def texts() -> list[Attack]:
    """Manifests whose texts command whoever shows them, and keys that come twice."""
    found = []
    for name, text in ESCAPES.items():
        for key, change in {
            "payload": lambda m, text=text: m.update(payload=text),
            "notes": lambda m, text=text: m.update(notes=[text]),
            "cpu": lambda m, text=text: m["machine"].update(cpu=text),
        }.items():
            found.append(Attack(f"{name}-in-{key}", "the reader's terminal", manifest(change)))
    for name, change in {
        "seed": lambda m: m.update(seed=-1),
        "seed-text": lambda m: m.update(seed="1"),
        "flops-bool": lambda m: m.update(flops=True),
        "flops-least": lambda m: m.update(flops=5e-324),
        "reduction-bool": lambda m: m.update(reduction=True),
        "count-text": lambda m: m.update(buffers={"count": "1", "peak_bytes": 64, "naive_bytes": 64}),
        "noise-text": lambda m: m.update(noise_floor="0.01"),
    }.items():
        found.append(
            Attack(f"odd-{name}", "who takes a field for a number", manifest(change), words="as it was recorded")
        )
    for key in ("format_version", "payload", "sha256", "seed", "samples", "tasks", "pipeline"):
        double = raw_manifest(lambda text, key=key: "{" + f'"{key}": 1, ' + text[text.index("{") + 1 :])
        found.append(Attack(f"twice-{key}", "two readers of one file", double, words="comes twice"))
    return found


def surroundings() -> list[Attack]:
    """What is no regular file of bounded size, where a file should be."""
    found = []
    for name in ("manifest.json", *PLACES[:2], "schedule.mlir"):
        for kind, make in KINDS.items():
            found.append(Attack(f"{kind}-for-{name}", "waiting or reading for ever", spoilt(in_place_of(name, make))))
    for kind, make in KINDS.items():
        found.append(Attack(f"{kind}-for-a-payload", "waiting or reading for ever", path_as(make, "mine.mlir", tune)))
        found.append(Attack(f"{kind}-for-a-store", "waiting or reading for ever", path_as(make, "s.journal", inspect)))
    return found


KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terabyte": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40),
    "loop": lambda path: path.symlink_to(path),
}


def in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Put something else where a file of a bundle was."""

    def edit(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return edit


def path_as(
    make: Callable[[Path], object], name: str, command: Callable[[Path], list[str]]
) -> Callable[..., list[str]]:
    """Something in place of a file that a command reads."""

    def write(folder: Path) -> list[str]:
        make(folder / name)
        return command(folder / name)

    return write


def inspect(path: Path) -> list[str]:
    """The command line that looks into a store."""
    return ["inspect", "--store", str(path)]


def files() -> list[Attack]:
    """Files that are hard to read: deep, large, or not what they say."""
    deep = {
        "regions": function("scf.if %x {\n" * 5000 + "}\n" * 5000, before=""),
        "modules": "module {" * 5000 + "}" * 5000,
        "attributes": f"module attributes {{a = {'[' * 5000}{']' * 5000}}} {{}}",
        "types": f"func.func @matmul(%a: {'tuple<' * 5000}i1{'>' * 5000}) {{ return }}",
        "affine": f"#m = affine_map<(d0) -> ({'(' * 5000}d0{')' * 5000})>\nmodule {{}}",
        "locations": f"module {{}} loc({'callsite(' * 3000}unknown{' at unknown)' * 3000})",
    }
    odd = {
        "nul": b"\x00" * 100,
        "utf16": "module {}".encode("utf-16"),
        "bytes": b"\xff\xfe\xfd",
        "empty": b"",
        "elf": b"\x7fELF" + bytes(60),
        "bytecode": b"ML\xefR" + bytes(60),
        "long-line": b"//" + b"x" * 5_000_000,
        "wide-integer": b"func.func @f(%a: memref<4xi16777216>) { return }",
        "huge-shape": b"func.func @f(%a: memref<9223372036854775807x9223372036854775807xf32>) { return }",
        "negative-shape": b"func.func @f(%a: memref<-4xf32>) { return }",
        "two-entries": b"func.func @f() { return }\nfunc.func @g() { return }",
        "no-function": b"module {}",
        "escape-in-a-name": b'func.func @"\x1b[31m"() { return }',
        "endless-alias": b"!a = !a\nfunc.func @f(%x: !a) { return }",
    }
    found = [Attack(f"deep-{n}-as-payload", "the parser's stack", payload(text)) for n, text in deep.items()]
    found += [
        Attack(f"deep-{n}-in-tagged.mlir", "the parser's stack", spoilt(replace_file(PLACES[1], text)))
        for n, text in deep.items()
    ]
    found += [Attack(f"{name}-as-payload", "the parser", payload(text)) for name, text in odd.items()]
    for name, text in DOUBLING.items():
        words = "stand for"
        found.append(Attack(f"doubling-{name}-as-payload", "its reader's time", payload(text), words=words))
        for file in ("schedule.mlir", "tagged.mlir"):
            edit = spoilt(replace_file(file, text))
            found.append(Attack(f"doubling-{name}-in-{file}", "its reader's time", edit, words=words))
    for name, change in {
        "deep": lambda text: "[" * 100_000,
        "deep-objects": lambda text: '{"a":' * 100_000,
        "utf16": lambda text: text.encode("utf-16"),
        "nan": lambda text: text.replace('"seed": 0', '"seed": NaN'),
        "digits": lambda text: text.replace('"seed": 0', '"seed": ' + "9" * 5000),
        "half": lambda text: text[: len(text) // 2],
        "nothing": lambda text: "",
    }.items():
        found.append(Attack(f"{name}-manifest", "the parser of JSON", raw_manifest(change)))
    return found


CORPUS = [*programs(), *scripts(), *texts(), *surroundings(), *files()]
