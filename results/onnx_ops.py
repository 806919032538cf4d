"""ONNX's own tests of single nodes: which are right here, which are refused and why, in docs/results.md.

``measure`` writes every case of a single node as a model with its inputs and expected results, imports it, compiles it
by the default configs, calls it and compares; it goes on where it was stopped. Each step of a case is a process group
of its own. A model that is refused is tried once more with all inputs but the first held, as models that people export
have them: axes, shapes and sizes are constants there. Needs the extra `import`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from blocks import ROOT, Block, keep_all, load, table

TARGET = ROOT / "onnx_ops.json"
FILES = ROOT.parent / "build" / "onnx_ops"  # a folder a case: model, arrays, what the steps wrote
SECONDS = 240.0  # that a step of a case may take
WAYS = ("given", "held")  # inputs as the case has them, and all but the first as weights
OUTCOMES = ("right", "right, held", "refused", "wrong")
FOLDED = "_expanded"  # names of cases whose node is written out as ONNX defines it, which are nodes of other cases
HEADS = ("ops of", "domain", "right", "right where held", "refused", "wrong")

Only = Annotated[str, typer.Option(help="Only cases whose names contain this.")]
Again = Annotated[bool, typer.Option(help="Also what is recorded.")]


def measure(only: Only = "", again: Again = False) -> None:
    """Check every case that is not yet recorded."""
    if again:
        for each in FILES.iterdir():
            if only in each.name:
                shutil.rmtree(each)
    FILES.mkdir(parents=True, exist_ok=True)
    steps = [["write-cases"], *([step, way] for way in WAYS for step in ("import-cases", "call-cases"))]
    for step in steps:  # apart: importing has an MLIR of its own
        subprocess.run([sys.executable, __file__, *step, "--only", only], check=True)
    record()


def record() -> None:
    """Write down what is known of every case, also before all are done."""
    folders = [each for each in sorted(FILES.iterdir()) if not each.name.startswith(".")]
    found = {each.name: outcome_of(each) for each in folders if is_done(each)}
    versions = {each: version(each) for each in ("onnx", "numpy")}
    keep_all(TARGET, {"versions": versions, "of": len(folders), "cases": found})
    counts = Counter(one["outcome"] for one in found.values())
    typer.echo(f"{len(found)} of {len(folders)}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def write_cases(only: Only = "") -> None:
    """Write the cases of a single node."""
    import onnx  # each step has what it needs

    warnings.simplefilter("ignore", RuntimeWarning)  # which cases of large numbers give
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        folder = FILES / case.name
        if only not in case.name or FOLDED in case.name or len(case.model.graph.node) != 1 or folder.exists():
            continue
        partial = FILES / f".{case.name}"
        partial.mkdir(parents=True, exist_ok=True)
        node = case.model.graph.node[0]
        schema = onnx.defs.get_schema(node.op_type, node.domain)
        inputs, outputs = case.data_sets[0]
        facts = {"op": node.op_type, "domain": node.domain or "ai.onnx", "class": Path(schema.file).parent.name}
        tolerance = {"relative": case.rtol, "absolute": case.atol}
        plain = all(isinstance(each, np.ndarray) for each in (*inputs, *outputs))
        kinds = (
            [str(each.dtype) for each in (*inputs, *outputs)] if plain else []
        )  # the file forgets those of ml_dtypes
        case_facts = {**facts, **tolerance, "is_plain": plain, "inputs": len(inputs), "kinds": kinds}
        (partial / "case.json").write_text(json.dumps(case_facts))
        if plain:
            np.savez(partial / "arrays.npz", **{f"array{n}": each for n, each in enumerate((*inputs, *outputs))})
        onnx.save(case.model, partial / "given.onnx")
        onnx.save(hold(case.model, inputs) if plain else case.model, partial / "held.onnx")
        partial.rename(folder)


def hold(model: Any, arrays: list[Any]) -> Any:  # noqa: ANN401 - models of ONNX, which not every step may import
    """The model with all inputs but the first as weights."""
    from onnx import ModelProto, numpy_helper

    held = ModelProto()
    held.CopyFrom(model)
    names = [tensor.name for tensor in model.graph.input]
    for name, array in list(zip(names, arrays, strict=True))[1:]:
        held.graph.initializer.append(numpy_helper.from_array(array, name))
    del held.graph.input[1:]
    return held


def import_cases(way: str, only: Only = "") -> None:
    """Import the cases that no other way has right, by torch-mlir and its MLIR."""
    from payload.importers.linalg import UnsupportedError  # each step has what it needs
    from payload.importers.onnx_convert import convert

    def step(folder: Path, way: str) -> dict[str, str]:
        try:
            convert(folder / f"{way}.onnx", folder / way, {})
        except UnsupportedError as error:
            return {"outcome": "refused", "why": str(error)}
        return {"outcome": "imported"}

    for folder in cases(only):
        if way == WAYS[0] or end_of(folder, WAYS[0])["outcome"] == "refused":
            run_step(folder, way, "imported", step)


def call_cases(way: str, only: Only = "") -> None:
    """Compile what was imported, call it and compare."""
    import autotune as at  # each step has what it needs
    from autotune.bundles.call import PayloadFunction
    from autotune.compiler.tasks.partition import partition
    from autotune.compiler.tasks.payload_file import read_payload
    from autotune.compiler.tasks.payload_folder import load_payload_folder
    from autotune.core.host.machine import this_machine
    from autotune.core.plugs.imported import TEXT
    from autotune.tuning.candidates import default_candidate
    from autotune.worker.loading.reading import bare

    machine = this_machine()

    def step(folder: Path, way: str) -> dict[str, str]:
        facts = read(folder / "case.json")
        held = np.load(folder / "arrays.npz")
        arrays = [held[f"array{n}"].view(np.dtype(kind)) for n, kind in enumerate(facts["kinds"])]
        given, expected = arrays[: facts["inputs"]], arrays[facts["inputs"] :]
        try:
            text = bare(read_payload(folder.name, (folder / way / TEXT).read_text()))
            payload = load_payload_folder(folder / way, folder.name, text)
            function = PayloadFunction(payload, default_candidate(partition(payload), machine), machine)
            found = function(*(given if way == "given" else given[:1]))
        except at.AutotuneError as error:
            return {"outcome": "refused", "why": str(error)}
        results = list(found.values()) if isinstance(found, dict) else [found]
        differences = [compare(*each, facts) for each in zip(results, expected, strict=True)]
        why = next((each for each in differences if each), "")
        return {"outcome": "wrong", "why": why} if why else {"outcome": "right"}

    for folder in cases(only):
        if end_of(folder, way)["outcome"] == "imported":
            run_step(folder, way, "called", step)


def compare(found: Any, expected: Any, facts: dict[str, Any]) -> str:  # noqa: ANN401 - arrays of any kind
    """What is wrong with a result; empty where it is right.

    Types may differ: bytes without a sign are i32 here. Halves may differ by a unit in the last place.
    """
    import ml_dtypes  # each step has what it needs

    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    if expected.dtype.kind in "iub":
        is_far = found.astype(object) != expected.astype(object).astype(int)
    else:
        ours, right = found.astype(np.float64), expected.astype(np.float64)
        epsilon = float(ml_dtypes.finfo(expected.dtype).eps) if expected.dtype.itemsize > 1 else 0.0
        bounds = {"rtol": max(facts["relative"], epsilon), "atol": max(facts["absolute"], 1e-6)}
        is_far = ~np.isclose(ours, right, **bounds, equal_nan=True)
    if not np.any(is_far):
        return ""
    first = f"{found[is_far].flat[0]}, not {expected[is_far].flat[0]}"
    return f"{np.count_nonzero(is_far)} of {expected.size} elements; {first}"


def cases(only: str) -> Iterator[Path]:
    """Folders of the cases of arrays alone."""
    for folder in sorted(FILES.iterdir()):
        if only in folder.name and not folder.name.startswith(".") and read(folder / "case.json")["is_plain"]:
            yield folder


def run_step(folder: Path, way: str, name: str, step: Callable[[Path, str], dict[str, str]]) -> None:
    """Do a step of a case in a process group of its own, unless it was done; what it finds is written."""
    target = folder / f"{way}.{name}.json"
    if target.exists():
        return
    child = os.fork()
    if child == 0:
        os.setsid()
        with (folder / f"{way}.{name}.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                found = step(folder, way)
            except BaseException as error:  # whatever it is, it was found
                traceback.print_exc()
                found = {"outcome": "failed", "why": f"{type(error).__name__}: {error}"}
            (folder / "fresh").write_text(json.dumps(found))
        os._exit(0)
    why = wait(child)
    if why:
        (folder / "fresh").write_text(json.dumps({"outcome": "failed", "why": why}))
    (folder / "fresh").rename(target)


def wait(child: int) -> str:
    """Wait for the process group of a child, and end it when its time is up; gives what went wrong."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == 0 else f"the process ended with {code}"
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"it took more than {SECONDS:g} s"


def end_of(folder: Path, way: str) -> dict[str, str]:
    """How a case ended in one way, as far as it is done."""
    paths = [folder / f"{way}.{step}.json" for step in ("called", "imported")]
    return next((read(path) for path in paths if path.exists()), {"outcome": "not tried", "why": ""})


def read(path: Path) -> dict[str, Any]:
    """What a step wrote."""
    return dict(json.loads(path.read_text()))


def is_done(folder: Path) -> bool:
    """Whether a case was tried in every way that it has to be."""
    if not read(folder / "case.json")["is_plain"]:
        return True
    first, other = (end_of(folder, way)["outcome"] for way in WAYS)
    open_ends = ("not tried", "imported")
    return first not in open_ends and (first != "refused" or other not in open_ends)


def outcome_of(folder: Path) -> dict[str, str]:
    """How a case ended: the best of its two ways, unless one is wrong."""
    facts = read(folder / "case.json")
    named = {key: facts[key] for key in ("op", "domain", "class")}
    if not facts["is_plain"]:
        return {**named, "outcome": "refused", "why": "sequences, maps and optional values are no arrays"}
    ends = [end_of(folder, way) for way in WAYS]
    for way, end in zip(WAYS, ends, strict=True):
        if end["outcome"] in ("wrong", "failed"):
            return {**named, "outcome": "wrong", "why": f"{'held: ' * (way == 'held')}{end['why']}"[:300]}
    if ends[0]["outcome"] == "right":
        return {**named, "outcome": "right"}
    why = ends[0]["why"].replace(str(folder), "")[:300]
    return {**named, "outcome": "right, held" if ends[1]["outcome"] == "right" else "refused", "why": why}


def part(path: Path) -> str:
    """The table of a walk, and the ops that are refused."""
    found = load(path)
    every = found["cases"].values()
    groups = sorted({(one["class"], one["domain"]) for one in every})
    counts = Counter((one["class"], one["domain"], one["outcome"]) for one in every)
    rows = [
        f"| {group} | {domain} | {' | '.join(str(counts[group, domain, each]) for each in OUTCOMES)} |"
        for group, domain in groups
    ]
    whole = Counter(one["outcome"] for one in every)
    rows.append(f"| **all** | | {' | '.join(f'**{whole[each]}**' for each in OUTCOMES)} |")
    refused = Counter(one["op"] for one in every if one["outcome"] == "refused")
    listed = ", ".join(f"{op} {count}" for op, count in sorted(refused.items()))
    head = f"\nOf ONNX {found['versions']['onnx']}; {len(every)} of {found['of']} cases were run:\n\n"
    return head + table(HEADS, rows) + f"\nRefused, by op: {listed}.\n"


BLOCK = Block("onnx_ops", part, measure, TARGET.name)


if __name__ == "__main__":
    BLOCK.serve(record, write_cases, import_cases, call_cases)
