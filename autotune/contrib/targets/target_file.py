"""Machine files: TOML descriptions of target machines, and lookup of shipped ones.

    machine.toml --read_target--> Target: LLVM's target, and the `Machine` for which schedules are written

All values are validated, and each violated constraint is reported in one line. Format version: 1.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from autotune.core.described import check_number, check_text, shipped_in
from autotune.core.errors import MachineError
from autotune.core.host.files import read_text
from autotune.core.host.machine import VECTOR_EXTENSIONS, Machine
from autotune.core.host.matrix_unit import Tiles
from autotune.core.printable import one_line
from autotune.core.target import EXTENSIONS, Target

FORMAT = 1
MOST_BYTES = 1 << 16  # of a file
MOST_CHARACTERS = 20_000  # of a text in it
SHIPPED = Path(__file__).parent / "machines"
WIDEST, LEAST_CACHE, MOST_CACHE, MOST_CORES = 2048, 1 << 10, 1 << 34, 1 << 12
SVE_REGISTERS = 32
PLAIN = {"x86_64": "x86-64", "aarch64": "aarch64"}  # shipped machine for a triple without a CPU
TRIPLE = re.compile(r"(x86_64|aarch64)-(?:(?:pc|unknown)-)?(linux-(?:gnu|musl))", re.ASCII)
WORD, FEATURE = "[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", "[+-][A-Za-z0-9._-]{1,40}"
PATTERNS = {
    "name": re.compile(WORD, re.ASCII),
    "cpu": re.compile(WORD, re.ASCII),
    "features": re.compile(f"({FEATURE}(,{FEATURE}){{0,400}})?", re.ASCII),
    "emulated_as": re.compile(f"({WORD}(,[A-Za-z0-9._=+-]{{1,64}}){{0,40}})?", re.ASCII),
}
EXAMPLES = {"name": "neoverse-n1", "cpu": "neoverse-n1", "features": "+sve,-sve2", "emulated_as": "max,sve256=on"}
TEXTS = ("name", "model", "source", "triple", "cpu", "isa")
NUMBERS = ("l1_bytes", "l2_bytes", "l3_bytes", "cores")
OPTIONAL = ("features", "emulated_as", "vector_bits", "tiles")
TILED = ("x86_64", "avx512f")  # architecture and vector extension that AMX requires


def find_target(spec: str, option: str = "--target") -> Target:
    """Return the target that a user names.

    Args:
        spec: Path that ends in ``.toml``, name of a shipped machine, or ``TRIPLE[,cpu=CPU]`` of one.
        option: Option with this value, for the message.

    Raises:
        MachineError: There is no such machine, or its file violates a constraint.
    """
    if spec.endswith(".toml"):
        requirement = "a machine file must be readable TOML"
        return read_target(read_text(spec, MOST_BYTES, requirement, MachineError), spec)
    shipped = shipped_targets()
    if spec in shipped:
        return shipped[spec]
    triple, _, cpu = spec.partition(",cpu=")
    if match := TRIPLE.fullmatch(triple):
        generic = shipped[PLAIN[match[1]]]
        wanted = cpu or generic.cpu
        for each in shipped.values():
            if (each.architecture, each.cpu) == (match[1], wanted):
                return replace(each, triple=f"{match[1]}-{match[2]}")
    raise MachineError(
        f"{option} must be one of {', '.join(shipped)}, TRIPLE[,cpu=CPU] of one, or a file, "
        f"got {one_line(spec)[:80]!r}; `autotune doctor --write machine.toml` on that machine makes a file"
    )


@cache
def shipped_targets() -> Mapping[str, Target]:
    """Return the targets whose files are part of this package, by name."""
    return shipped_in(SHIPPED, read_target)


def read_target(text: str, source: str) -> Target:
    """Parse a machine file; whether LLVM knows its processor is not checked here.

    Args:
        text: Text of the file, as TOML.
        source: Name of the file, for messages.

    Raises:
        MachineError: The text is not TOML, or violates a constraint.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"a machine file must be TOML, {source} is not: {one_line(str(error))}") from error
    try:
        return target_of(values)
    except ValueError as error:
        raise MachineError(f"{source}: {error}") from error


def target_of(data: Mapping[str, Any]) -> Target:
    """Validate the keys and values of a machine file and return the target.

    Raises:
        ValueError: A constraint is violated; the message says which.
    """
    check_keys(data)
    text = {key: check_text(key, data.get(key, ""), 0, MOST_CHARACTERS) for key in (*TEXTS, "features", "emulated_as")}
    for key, pattern in PATTERNS.items():
        if not pattern.fullmatch(text[key]):
            raise ValueError(f"{key} must be like {EXAMPLES[key]!r}, got {text[key][:60]!r}")
    triple = TRIPLE.fullmatch(text["triple"])
    if triple is None:
        raise ValueError(f"triple must be x86_64 or aarch64, of linux-gnu or linux-musl; got {text['triple'][:60]!r}")
    isas = EXTENSIONS[triple[1]]
    if text["isa"] not in isas:
        raise ValueError(f"isa of {triple[1]} must be one of {', '.join(isas)}; got {text['isa'][:60]!r}")
    bits, registers = vectors_of(text["isa"], data.get("vector_bits"))
    tiles = tiles_of(data.get("tiles", ""), triple[1], text["isa"])
    l1, l2 = (check_number(key, data[key], LEAST_CACHE, MOST_CACHE) for key in ("l1_bytes", "l2_bytes"))
    if l2 < l1:
        raise ValueError(f"l2_bytes must be at least l1_bytes, {l1}, got {l2}; give L1's where there is no L2")
    machine = Machine(
        cpu=text["model"],
        microarchitecture=text["name"],
        isa=text["isa"],
        vector_bits=bits,
        vector_registers=registers,
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=check_number("l3_bytes", data["l3_bytes"], 0, MOST_CACHE),
        cores=check_number("cores", data["cores"], 1, MOST_CORES),
        tiles=tiles,
    )
    target_triple = f"{triple[1]}-{triple[2]}"
    return Target(
        text["name"], target_triple, text["cpu"], text["features"], machine, text["source"], text["emulated_as"]
    )


def check_keys(data: Mapping[str, Any]) -> None:
    """Check the format version, and that no key is missing or unknown.

    Raises:
        ValueError: The format version or a key is wrong.
    """
    if data.get("format_version") != FORMAT:
        raise ValueError(f"format_version must be {FORMAT}, got {data.get('format_version')!r:.60}")
    needed = (*TEXTS, *NUMBERS)
    if missing := [key for key in needed if key not in data]:
        raise ValueError(f"a machine must say {', '.join(needed)}; {', '.join(missing)} missing")
    known = {"format_version", *needed, *OPTIONAL}
    if unknown := [one_line(key)[:60] for key in data if key not in known]:
        raise ValueError(f"a machine may say no more than {', '.join(sorted(known))}; got {', '.join(unknown[:5])}")


def vectors_of(isa: str, bits: object) -> tuple[int, int]:
    """Return the width in bits and the number of vector registers.

    Args:
        isa: Vector extension.
        bits: Width from the file; `None` if it has none.

    Raises:
        ValueError: The extension has no vectors of this width.
    """
    if isa == "sve":
        width = check_number("vector_bits", bits, 128, WIDEST)
        if width & (width - 1):
            raise ValueError(f"vector_bits of sve must be a power of two from 128 to {WIDEST}, got {width}; try 256")
        return width, SVE_REGISTERS
    own, registers = VECTOR_EXTENSIONS[isa]
    if bits is not None and (bits != own or isinstance(bits, bool)):
        raise ValueError(f"vector_bits of {isa} must be {own}, got {one_line(repr(bits))[:60]}; leave it out")
    return own, registers


def tiles_of(value: object, architecture: str, isa: str) -> Tiles:
    """Validate the matrix unit of a file.

    Raises:
        ValueError: The unit is unknown, or requires another vector extension.
    """
    if value == "":
        return ""
    if value != "amx":
        raise ValueError(f"tiles must be 'amx', got {one_line(repr(value))[:60]}; leave it out where there are none")
    if (architecture, isa) != TILED:
        raise ValueError(f"tiles of amx need isa {TILED[1]} of {TILED[0]}, got {isa} of {architecture}; leave them out")
    return "amx"


def write_target(target: Target) -> str:
    """Return the machine file of a target as text.

    Example:
        >>> read_target(write_target(shipped_targets()["x86-64"]), "x") == shipped_targets()["x86-64"]
        True
    """
    m = target.machine
    lines = {
        "format_version": FORMAT,
        "name": target.name,
        "model": m.cpu,
        "source": target.source,
        "triple": target.triple,
        "cpu": target.cpu,
        "features": target.features,
        "emulated_as": target.emulated_as,
        "isa": m.isa,
        "vector_bits": m.vector_bits,
        "l1_bytes": m.l1_bytes,
        "l2_bytes": m.l2_bytes,
        "l3_bytes": m.l3_bytes,
        "cores": m.cores,
        **({"tiles": m.tiles} if target.has_tiles else {}),
    }
    body = "".join(
        f"{key} = {value if isinstance(value, int) else quoted(str(value))}\n" for key, value in lines.items()
    )
    return f"# A machine to compile for: autotune replay BUNDLE --target FILE\n{body}"


def quoted(text: str) -> str:
    """Quote a text as a TOML string: its printable form, with quotes and backslashes escaped."""
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
