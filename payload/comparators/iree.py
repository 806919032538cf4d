"""IREE as a comparator: it compiles the payload's own MLIR for the host CPU with data tiling; one thread per core."""

import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from autotune.core.errors import ComparatorError
from autotune.core.host.cores import own_cores
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import Prepared
from payload.comparators.tensor_module import SCOPE, TensorModule, write

# Measured for nano, gpt2 and 512^3: optimization level O3 and microkernels give no speed-up, data tiling does.
FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-data-tiling=true",
)
COMPILER = "iree.compiler.tools.scripts.iree_compile"
ALONE, TOGETHER = "local-sync", "local-task"  # drivers that run on the calling thread, or on one thread per core


@dataclass(frozen=True)
class Iree:
    """IREE, as the comparator ``iree``."""

    name: str = "iree"
    modules: tuple[str, ...] = ("iree.compiler", "iree.runtime")
    extra: str = "iree"

    def version(self) -> str:
        """Return the versions of compiler and runtime, and the target."""
        compiler, runtime = version("iree-base-compiler"), version("iree-base-runtime")
        both = compiler if compiler == runtime else f"{compiler} and runtime {runtime}"
        return f"iree {both}, llvm-cpu for host {platform.machine()}, data tiling, {device()}"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Compile and load the payload; weights are packed before the first call.

        Raises:
            ComparatorError: The payload does not work on tensors, or the compiler rejects it.
        """
        module = write(payload, inputs)
        program = IreeProgram(payload, module, compile_module(module, payload.name), inputs)
        return Prepared(program.call, program.outputs)


IREE = Iree()


def device() -> str:
    """Return the name of the runtime's driver for the number of cores of the process."""
    return ALONE if own_cores() == 1 else TOGETHER


def compile_module(module: TensorModule, name: str) -> bytes:
    """Compile for the host CPU in a subprocess, because one process cannot load two copies of MLIR's Python bindings.

    Raises:
        ComparatorError: The compiler rejects the module.
    """
    command = [sys.executable, "-m", COMPILER, "-", "-o", "-", *FLAGS]
    process = subprocess.run(command, input=module.text.encode(), capture_output=True, check=False)
    if process.returncode:
        lines = process.stderr.decode(errors="replace").splitlines()
        reason = next((line for line in lines if "error:" in line), f"exit code {process.returncode}")
        raise ComparatorError(f"IREE must compile {name}, it refuses: {reason.strip()}")
    return process.stdout


class IreeProgram:
    """Loaded program and the objects that must outlive it."""

    def __init__(self, payload: Payload, module: TensorModule, binary: bytes, inputs: Mapping[str, Array]) -> None:
        from iree import runtime  # noqa: PLC0415 - comes with an extra

        self._runtime = runtime
        config = runtime.Config(device())
        instance, self._device = config.vm_instance, config.device
        index = runtime.ParameterIndex()
        for name, array in module.weights.items():
            index.add_buffer(name, array)
        self._weights = module.weights
        loaded = runtime.VmModule.copy_buffer(instance, binary)
        modules = [runtime.create_hal_module(instance, self._device), loaded]
        if module.weights:
            modules.insert(0, runtime.create_io_parameters_module(instance, index.create_provider(SCOPE)))
        self._context = runtime.VmContext(instance, modules)
        self._function = loaded.lookup_function(payload.entry)
        self._count = len(payload.outputs)
        self._fed = [runtime.asdevicearray(self._device, inputs[name]) for name in module.inputs]
        self._arguments = runtime.VmVariantList(len(self._fed))
        for array in self._fed:
            self._arguments.push_ref(array._buffer_view)

    def call(self) -> Any:  # noqa: ANN401 - its own class
        """Run once; the runtime allocates the outputs."""
        results = self._runtime.VmVariantList(self._count)
        self._context.invoke(self._function, self._arguments, results)
        return results

    def outputs(self, results: Any) -> tuple[Array, ...]:  # noqa: ANN401
        """Convert the outputs to arrays."""
        views = [results.get_as_object(i, self._runtime.HalBufferView) for i in range(self._count)]
        device = self._device
        return tuple(self._runtime.DeviceArray(device, v, implicit_host_transfer=True).to_host() for v in views)
