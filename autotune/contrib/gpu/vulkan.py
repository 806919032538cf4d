"""lavapipe, Mesa's Vulkan driver that computes on the CPU: where it is, and kernels run on it, a process each.

A candidate's kernel is run once, in a process that ends with it, behind the walls of `vulkan_process`.
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

FOLDER = "AUTOTUNE_VULKAN"  # of the environment: where packages were unpacked, beside the system's
PACKAGES = "mesa-vulkan-drivers libvulkan1 spirv-tools"
DRIVER, LOADER, VALIDATOR = "libvulkan_lvp.so", "libvulkan.so.1", "spirv-val"
LIBRARIES = ("/usr/lib", "/lib", "/usr/lib64", "/usr/local/lib")
SECONDS = 60.0


@dataclass(frozen=True)
class Lavapipe:
    """A driver that was found.

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
    """The driver, its loader and the validator.

    Raises:
        MachineError: One is missing, with what installs it.
    """
    missing = missing_parts()
    if missing:
        raise MachineError(
            f"--target needs lavapipe, a Vulkan driver without a GPU, {', '.join(missing)} missing; {way_out()}"
        )
    return Lavapipe(str(library(DRIVER)), str(library(LOADER)), str(validator()))


def missing_parts() -> list[str]:
    """What a run of a kernel needs and this machine lacks."""
    paths = {DRIVER: library(DRIVER), LOADER: library(LOADER), VALIDATOR: validator()}
    lacks = [name for name, path in paths.items() if path is None]
    return [*lacks, *(["Python's vulkan"] if find_spec("vulkan") is None else [])]


def way_out() -> str:
    """What brings it."""
    return f"apt-get install {PACKAGES}, or unpack them and set {FOLDER} to the folder; {install_command('gpu')}"


@cache
def library(name: str) -> Path | None:
    """A library of the named folder, or of the system."""
    triplet = f"{platform.machine()}-linux-gnu"
    named = os.environ.get(FOLDER, "")
    roots = [Path(named) / part.lstrip("/") for part in LIBRARIES] if named else []
    for root in (*roots, *map(Path, LIBRARIES)):
        for path in (root / triplet / name, root / name):
            if path.exists():
                return path
    return None


def validator() -> str | None:
    """Path of spirv-val in the named folder, or of the system's."""
    named = os.environ.get(FOLDER, "")
    own = Path(named) / "usr" / "bin" / VALIDATOR
    return str(own) if named and own.exists() else shutil.which(VALIDATOR)


@dataclass(frozen=True)
class VulkanModule:
    """A kernel that a driver takes.

    Attributes:
        name: Entry point.
        grid: Blocks along x, y and z.
        data: The kernel as SPIR-V.
    """

    name: str
    grid: tuple[int, int, int]
    data: bytes


@dataclass(frozen=True)
class VulkanProgram:
    """Launches of kernels.

    Attributes:
        modules: The kernels.
        launches: Number of the module, and of each of its bindings: buffer, first byte and bytes.
        scratch_bytes: Bytes of one more buffer behind those of arguments.
    """

    modules: tuple[VulkanModule, ...]
    launches: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]
    scratch_bytes: int = 0


def run_on(driver: Lavapipe, kernel: Kernel, data: bytes, arrays: Sequence[Array]) -> list[Array]:
    """Run a kernel once; gives its arguments after it.

    Args:
        driver: What runs it.
        kernel: Kernel with its name, grid and arguments.
        data: The kernel as SPIR-V.
        arrays: Arrays of its arguments, in its order.

    Raises:
        KernelError: The process that ran it failed, or took too long.
    """
    bindings = tuple((number, 0, array.nbytes) for number, array in enumerate(arrays))
    module = VulkanModule(kernel.name, kernel.grid, data)
    return run_program(driver, VulkanProgram((module,), ((0, bindings),)), arrays)


def run_program(driver: Lavapipe, program: VulkanProgram, arrays: Sequence[Array]) -> list[Array]:
    """Run launches, one after the other; gives the arguments after them.

    Args:
        driver: What runs them.
        program: The launches.
        arrays: Arrays of the first buffers; the scratch buffer begins as no number.

    Raises:
        KernelError: The process that ran them failed, or took too long.
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
    """Start the process of a kernel, and wait for it.

    Raises:
        KernelError: The process takes too long.
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
    """Arrays like others, one after the other in some bytes."""
    given, at = [], 0
    for array in arrays:
        given.append(np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape))
        at += array.nbytes
    return given
