"""Run kernels on lavapipe, Mesa's Vulkan driver for the CPU.

Each candidate is run once, in its own sandboxed process (`vulkan_process`).
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autotune.contrib.gpu.kernel import Kernel
from autotune.core.errors import KernelError, MachineError
from autotune.core.host.extras import install_command
from autotune.core.payload import Array
from autotune.core.printable import first_lines
from autotune.worker.isolation.cause import name_of

FOLDER = "AUTOTUNE_VULKAN"  # environment variable: folder of unpacked packages, searched before the system's
PACKAGES = "mesa-vulkan-drivers libvulkan1 spirv-tools"
DRIVER, LOADER, VALIDATOR = "libvulkan_lvp.so", "libvulkan.so.1", "spirv-val"
LIBRARIES = ("/usr/lib", "/lib", "/usr/lib64", "/usr/local/lib")
SECONDS = 60.0


@dataclass(frozen=True)
class Lavapipe:
    """Paths of the installed driver.

    Attributes:
        driver: Path of the driver.
        loader: Path of Vulkan's loader.
        validator: Path of spirv-val.
    """

    driver: str
    loader: str
    validator: str

    @property
    def libraries(self) -> str:
        """Folder of the libraries."""
        return str(Path(self.loader).parent)


def find_lavapipe() -> Lavapipe:
    """Find the driver, its loader and the validator.

    Raises:
        MachineError: One is missing; the message says how to install it.
    """
    missing = missing_parts()
    if missing:
        raise MachineError(
            f"--target needs lavapipe, a Vulkan driver without a GPU, {', '.join(missing)} missing; {way_out()}"
        )
    return Lavapipe(str(library(DRIVER)), str(library(LOADER)), str(validator()))


def missing_parts() -> list[str]:
    """Return the names of required components that are not installed."""
    paths = {DRIVER: library(DRIVER), LOADER: library(LOADER), VALIDATOR: validator()}
    lacks = [name for name, path in paths.items() if path is None]
    return [*lacks, *(["Python's vulkan"] if find_spec("vulkan") is None else [])]


def way_out() -> str:
    """Return how to install the missing components."""
    return f"apt-get install {PACKAGES}, or unpack them and set {FOLDER} to the folder; {install_command('gpu')}"


@cache
def library(name: str) -> Path | None:
    """Return the path of a library in the folder of `FOLDER` or the system; `None` if it is not installed."""
    triplet = f"{platform.machine()}-linux-gnu"
    folder = os.environ.get(FOLDER, "")
    roots = [Path(folder) / part.lstrip("/") for part in LIBRARIES] if folder else []
    for root in (*roots, *map(Path, LIBRARIES)):
        for path in (root / triplet / name, root / name):
            if path.exists():
                return path
    return None


def validator() -> str | None:
    """Return the path of spirv-val in the folder of `FOLDER` or the system; `None` if it is not installed."""
    folder = os.environ.get(FOLDER, "")
    own = Path(folder) / "usr" / "bin" / VALIDATOR
    return str(own) if folder and own.exists() else shutil.which(VALIDATOR)


@dataclass(frozen=True)
class VulkanModule:
    """A kernel as a SPIR-V module.

    Attributes:
        name: Entry point.
        grid: Blocks of the grid along x, y and z.
        data: SPIR-V binary.
    """

    name: str
    grid: tuple[int, int, int]
    data: bytes


@dataclass(frozen=True)
class VulkanProgram:
    """A sequence of kernel launches.

    Attributes:
        modules: Kernels that are launched.
        launches: Index of the module, and buffer index, offset and size in bytes of each of its bindings.
        scratch_bytes: Size of an additional buffer after those of the arguments, in bytes.
    """

    modules: tuple[VulkanModule, ...]
    launches: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]
    scratch_bytes: int = 0


def run_on(driver: Lavapipe, kernel: Kernel, data: bytes, arrays: Sequence[Array]) -> list[Array]:
    """Run a kernel once and return its arguments after the run.

    Args:
        driver: Driver to run it on.
        kernel: Kernel with its name, grid and arguments.
        data: The kernel as SPIR-V.
        arrays: Arrays of its arguments, in its order.

    Raises:
        KernelError: The process fails or times out.
    """
    bindings = tuple((number, 0, array.nbytes) for number, array in enumerate(arrays))
    module = VulkanModule(kernel.name, kernel.grid, data)
    return run_program(driver, VulkanProgram((module,), ((0, bindings),)), arrays)


def run_program(driver: Lavapipe, program: VulkanProgram, arrays: Sequence[Array]) -> list[Array]:
    """Run the launches of a program in order, and return the arguments after the run.

    Args:
        driver: Driver to run it on.
        program: Kernels and launches.
        arrays: Arrays of the argument buffers; the scratch buffer is initialized to NaN.

    Raises:
        KernelError: The process fails or times out.
    """
    header = {
        "modules": [(module.name, module.grid, len(module.data)) for module in program.modules],
        "launches": program.launches,
        "bytes": [array.nbytes for array in arrays],
        "scratch": program.scratch_bytes,
        "driver": driver.driver,
    }
    words = json.dumps(header).encode()
    kernels = (module.data for module in program.modules)
    data = (np.ascontiguousarray(array).tobytes() for array in arrays)
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        done = start(driver, Path(folder), b"".join([len(words).to_bytes(8, "little"), words, *kernels, *data]))
    expected = sum(array.nbytes for array in arrays)
    if done.returncode != 0 or len(done.stdout) != expected:
        message = first_lines(done.stderr.decode(errors="replace")[-2000:])
        why = name_of(done.returncode) if done.returncode else f"gave {len(done.stdout)} bytes of {expected}"
        raise KernelError("crashed", f"on lavapipe: {why}; {message}".rstrip("; "))
    return cut(done.stdout, arrays)


def start(driver: Lavapipe, folder: Path, sent: bytes) -> "subprocess.CompletedProcess[bytes]":
    """Run the process of a program and wait for it.

    Raises:
        KernelError: The process times out.
    """
    description = {"file_format_version": "1.0.0", "ICD": {"library_path": driver.driver, "api_version": "1.3.0"}}
    driver_file = folder / "lavapipe.json"
    driver_file.write_text(json.dumps(description), encoding="utf-8")
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (driver.libraries, os.environ.get("LD_LIBRARY_PATH", "")))),
        "VK_DRIVER_FILES": str(driver_file),
        "VK_ICD_FILENAMES": str(driver_file),
        "VK_LOADER_LAYERS_DISABLE": "~all~",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "LP_NUM_THREADS": "1",
        "HOME": str(folder),
    }
    scratch = folder / "scratch"
    scratch.touch()
    libraries = [str(driver_file), driver.libraries, str(Path(driver.driver).parent)]
    command = [sys.executable, "-m", "autotune.contrib.gpu.vulkan_process", str(scratch), *libraries]
    try:
        return subprocess.run(command, input=sent, capture_output=True, env=environment, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise KernelError("timed-out", f"took longer than {SECONDS:g} s on lavapipe") from error


def cut(data: bytes, arrays: Sequence[Array]) -> list[Array]:
    """Split consecutive bytes into arrays of the shapes and types of the given ones."""
    parts, offset = [], 0
    for array in arrays:
        parts.append(np.frombuffer(data, array.dtype, array.size, offset).reshape(array.shape))
        offset += array.nbytes
    return parts
