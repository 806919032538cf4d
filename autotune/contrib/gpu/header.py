"""Emission of kernels for other hosts: the kernel files and a C header with bindings and launches."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.contrib.gpu.files import BINARY, CHOSEN, PROGRAM, PTX
from autotune.contrib.gpu.folder import KernelFolder, read_json, read_limited
from autotune.core.c_names import c_name, identifier
from autotune.core.errors import BundleError
from autotune.core.host.whole_file import write_file
from autotune.core.printable import in_comment


def emit_folder(source: KernelFolder, output: Path) -> list[Path]:
    """Write the kernels of a folder and their C header.

    Raises:
        BundleError: A file is missing or incomplete.
    """
    name, end = c_name(source.payload.entry), "ptx" if source.device.chip else "spv"
    file = PTX if source.device.chip else BINARY
    recorded = read_json(source.folder / (PROGRAM if source.several else CHOSEN))
    try:
        kernels: Mapping[str, Any] = recorded["kernels"] if source.several else {name: {**recorded, "file": file}}
        header = header_text(name, source, recorded, kernels)
        files = {
            f"{c_name(each)}.{end}": read_limited(inside(source.folder, kernels[each]["file"])) for each in kernels
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{source.folder} must say what a host needs, it does not: {error}; tune again") from error
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for each, data in (files | {f"{name}.h": header.encode()}).items():
        write_file(output / each, data)
        written.append(output / each)
    return written


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder.

    Raises:
        BundleError: The path is outside of the folder.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise BundleError(f"files of {folder} must lie in it, {name} does not; tune again")
    return path


def header_text(name: str, tuned: KernelFolder, recorded: Mapping[str, Any], kernels: Mapping[str, Any]) -> str:
    """Return the text of the C header."""
    arguments = [(argument.name, argument.type) for argument in tuned.payload.arguments]
    if tuned.several:
        arguments.append(("intermediates", f"{int(recorded['arena_bytes'])} bytes"))
        launches = [(sorted(kernels).index(each["kernel"]), bindings_of(each)) for each in recorded["launches"]]
    else:
        names = [argument.name for argument in tuned.payload.arguments]
        sizes = [argument.bytes for argument in tuned.payload.arguments]
        numbers = [names.index(each) for each in recorded["bindings"]]
        launches = [(0, [(number, 0, sizes[number]) for number in numbers])]
    form = "PTX, arguments plain pointers" if tuned.device.chip else "SPIR-V, bindings of set 0, storage buffers"
    buffers = "".join(f"   {number}: {in_comment(' '.join(each))}\n" for number, each in enumerate(arguments))
    flat = [binding for _, bindings in launches for binding in bindings]
    starts, at = [], 0
    for kernel, bindings in launches:
        starts.append((kernel, at, len(bindings)))
        at += len(bindings)
    rows = [
        f'  {{"{c_name(each)}", "{identifier(kernels[each]["entry"])}", {triple(kernels[each], "block")}, '
        f"{triple(kernels[each], 'grid')}}}"
        for each in sorted(kernels)
    ]
    guard = f"{name.upper()}_KERNELS_H"
    return f"""\
/* {in_comment(tuned.payload.name)} for {tuned.device.name}, emitted by mlir-schedule-autotune: verified without a GPU,
   not measured. {form}; no push constants.
   Launches come one behind the other. Buffers:
{buffers}*/
#ifndef {guard}
#define {guard}

/* file, entry point, threads of a block, blocks of the grid */
static const struct {{ const char *file, *entry; unsigned block[3], grid[3]; }} {name}_kernels[] = {{
{joined(rows)}
}};

/* buffer, first byte, bytes */
static const unsigned long long {name}_bindings[][3] = {{
{joined(["  {" + ", ".join(map(str, each)) + "}" for each in flat])}
}};

/* kernel, first binding, bindings */
static const unsigned {name}_launches[][3] = {{
{joined(["  {" + ", ".join(map(str, each)) + "}" for each in starts])}
}};

#endif
"""


def bindings_of(launch: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Return the buffer index, offset and size in bytes of each binding of a launch."""
    return [(int(each["buffer"]), int(each["offset"]), int(each["size"])) for each in launch["bindings"]]


def triple(kernel: Mapping[str, Any], key: str) -> str:
    """Format sizes along x, y and z as a C initializer."""
    x, y, z = (int(size) for size in kernel[key])
    return f"{{{x}, {y}, {z}}}"


def joined(rows: Sequence[str]) -> str:
    """Join the rows of a C array initializer."""
    return ",\n".join(rows)
