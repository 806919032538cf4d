"""Recorded kernels, for `inspect` and `report`: the sweeps of a store or of a folder, and their HTML page."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotune.contrib.gpu.files import PROGRAM, SCHEDULE, STORE, home_of, is_kernel_folder, task_folder
from autotune.contrib.gpu.folder import KernelFolder, read_folder, read_json, read_script
from autotune.contrib.gpu.records import GpuRecord, KernelSweep, kernel_sweeps, outcomes_of
from autotune.contrib.gpu.tune import units_of
from autotune.core.errors import StoreError
from autotune.core.space import Config
from autotune.reports.format import plural
from autotune.reports.page import write_page
from autotune.reports.sections.blocks import (
    Block,
    Commands,
    DataTable,
    FoldedSection,
    Notes,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from autotune.reports.sections.tasks import code_of
from autotune.store.address import shown
from autotune.store.store import Store

MEASURED_NOTHING = "cycles are a model's of the device; nothing was measured"
HEADS = ("kernel", "device", "cycles", "of the FMA roof", "over default", "bound by", "registers", "error", "trials")


def read_sweeps(source: str | Path, store: str | None = None) -> list[KernelSweep]:
    """Return the sweeps of a store of kernels, or those of a folder that `tune --target` wrote.

    Args:
        source: Store or folder.
        store: Store of the folder's trials; by default the device's below the working directory.

    Raises:
        StoreError: The store is missing or damaged.
        BundleError: The folder is damaged.
    """
    folder = Path(source)
    if not is_kernel_folder(folder):
        with Store.read(source) as opened:
            return list(kernel_sweeps(opened))
    kernels = read_folder(folder)
    units = {unit.name for unit in units_of(kernels.payload, verified=False).payloads}
    address = store or home_of(kernels.device.name) / STORE
    if "://" not in str(address) and not Path(address).is_file():
        raise StoreError(f"trials of {folder} must be in a store, {shown(str(address))} is none; name it with --store")
    with Store.read(address) as opened:
        sweeps = kernel_sweeps(opened)
        return [each for each in sweeps if each.facts.payload in units and each.facts.device == kernels.device.name]


def to_json(sweep: KernelSweep) -> dict[str, Any]:
    """Return the best kernel of a task and the number of trials as a JSON object."""
    best, records = sweep.best, list(sweep.records.values())
    return {
        **asdict(sweep.facts),
        "trials": len(records),
        "outcomes": outcomes_of(records),
        "over_default": over_default(sweep),
        "best": asdict(best) if best is not None else None,
        "measured": False,
    }


def over_default(sweep: KernelSweep) -> float | None:
    """Return the ratio of the default's estimated cycles to the best ones; `None` if either has failed."""
    best, default = sweep.best, sweep.default
    if best is None or default is None or not best.cycles or default.cycles is None:
        return None
    return default.cycles / best.cycles


def changed(sweep: KernelSweep, record: GpuRecord) -> Config:
    """Return the knobs of a record that differ from the default config."""
    return {name: value for name, value in record.config.items() if sweep.facts.default.get(name) != value}


def write_kernel_page(source: str, store: str | None) -> str:
    """Return the HTML page of a folder or a store of kernels.

    Args:
        source: Folder or store.
        store: Store of a folder's trials; by default the device's, if it exists.

    Raises:
        BundleError: The folder is damaged.
        StoreError: The store is damaged.
    """
    folder = Path(source)
    if not is_kernel_folder(folder):
        sweeps = read_sweeps(source)
        lead = f"{plural(sum(len(each.records) for each in sweeps), 'trial')}; {MEASURED_NOTHING}."
        return write_page(f"Kernels of {shown(source)}", lead, [kernels_of(sweeps), search_of(sweeps)])
    kernels = read_folder(folder)
    address = store or home_of(kernels.device.name) / STORE
    sweeps = read_sweeps(source, store) if store is not None or Path(address).is_file() else []
    sections = [
        *([kernels_of(sweeps)] if sweeps else []),
        *([launches_of(kernels)] if kernels.several else []),
        scripts_of(kernels),
        *([search_of(sweeps)] if sweeps else []),
        again_with(folder),
    ]
    return write_page(
        f"{kernels.payload.name} for {kernels.device.name}", f"{verdict_of(kernels)}; {MEASURED_NOTHING}.", sections
    )


def verdict_of(folder: KernelFolder) -> str:
    """Describe the recorded verification of a folder's kernels."""
    recorded = read_json(folder.folder / PROGRAM) if folder.several else {}
    if folder.several and recorded.get("outcome") != "ok":
        return f"The whole was not right: {recorded.get('outcome')}"
    return "Verified when it was written"


def kernels_of(sweeps: Sequence[KernelSweep]) -> Section:
    """Return the section with the best kernel of each task."""
    columns = [TableColumn(head, head not in ("kernel", "device", "bound by")) for head in HEADS]
    return Section(
        "kernels", "Kernels", [DataTable(f"The best kernel of each task; {MEASURED_NOTHING}.", columns, rows(sweeps))]
    )


def rows(sweeps: Sequence[KernelSweep]) -> list[TableRow]:
    """Return the rows of the table of kernels."""
    table_rows = []
    for sweep in sweeps:
        best, gain, tried = sweep.best, over_default(sweep), len(sweep.records)
        if best is None or best.cycles is None:
            cells = [TableCell("none is right"), *[TableCell("-")] * (len(HEADS) - 4)]
        else:
            error = f"{best.max_error:.2g}" if best.max_error is not None else "not compared"
            cells = [
                TableCell(f"{best.cycles:.3g}", best.cycles),
                TableCell(f"{best.share:.0%}", best.share),
                TableCell(f"{gain:.2f}x" if gain else "-", gain),
                TableCell(best.bound),
                TableCell(str(best.registers or "-"), best.registers),
                TableCell(error, best.max_error),
            ]
        name = TableCell(f"{sweep.facts.payload} by {sweep.facts.family}")
        table_rows.append(TableRow([name, TableCell(sweep.facts.device), *cells, TableCell(str(tried), tried)]))
    return table_rows


def search_of(sweeps: Sequence[KernelSweep]) -> Section:
    """Return the section with all trials of each sweep."""
    blocks: list[Block] = []
    for sweep in sweeps:
        columns = [TableColumn("config"), TableColumn("outcome"), TableColumn("cycles", numeric=True)]
        trials = [
            TableRow(
                [
                    TableCell(" ".join(f"{name}={value}" for name, value in record.config.items())),
                    TableCell(record.outcome, title=record.diagnostic),
                    TableCell(f"{record.cycles:.4g}" if record.cycles is not None else "-", record.cycles),
                ],
                marked=record is sweep.best,
            )
            for record in sweep.records.values()
        ]
        title = f"{sweep.facts.payload} for {sweep.facts.device}: {plural(len(trials), 'trial')}"
        blocks.append(FoldedSection(title, [DataTable("Trials in their order.", columns, trials)]))
    return Section("search", "Search", blocks)


def launches_of(folder: KernelFolder) -> Section:
    """Return the section with the launches of a program."""
    recorded = read_json(folder.folder / PROGRAM)
    launches = [str(each.get("kernel")) for each in listed(recorded, "launches")]
    columns = [TableColumn("kernel"), TableColumn("launches", numeric=True), TableColumn("block"), TableColumn("grid")]
    recorded_kernels = recorded.get("kernels")
    kernels: Mapping[str, Any] = recorded_kernels if isinstance(recorded_kernels, dict) else {}
    table = [
        TableRow(
            [
                TableCell(name),
                TableCell(str(launches.count(name))),
                *(TableCell(axes(each, level)) for level in ("block", "grid")),
            ]
        )
        for name, each in kernels.items()
    ]
    counts = f"{plural(len(launches), 'launch')} of {plural(len(kernels), 'kernel')}"
    room = f"intermediates take {recorded.get('arena_bytes')} bytes, {recorded.get('separate_bytes')} each alone"
    return Section("launches", "Launches", [DataTable(f"{counts}; {room}.", columns, table)])


def listed(recorded: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; other elements are skipped."""
    elements = recorded.get(name)
    return [each for each in elements if isinstance(each, dict)] if isinstance(elements, list) else []


def axes(kernel: object, level: str) -> str:
    """Format the sizes along x, y and z."""
    sizes = kernel.get(level) if isinstance(kernel, dict) else None
    return " x ".join(map(str, sizes)) if isinstance(sizes, list) else "-"


def scripts_of(source: KernelFolder) -> Section:
    """Return the section with the transform script of every kernel."""
    units = units_of(source.payload, verified=False).payloads
    folders = {unit.name: task_folder(source.folder, unit.name, several=source.several) for unit in units}
    blocks: list[Block] = [
        code_of(f"Script of {name}", read_script(folder))
        for name, folder in folders.items()
        if (folder / SCHEDULE).is_file()
    ]
    return Section("scripts", "Scripts", blocks or [Notes(["No kernel was right."])])


def again_with(folder: Path) -> Section:
    """Return the section with commands that replay, check and emit the kernels."""
    name = folder.absolute().name
    verbs = (
        ("# make them again, verify them", ["replay", name]),
        ("# wrong here, or more cycles by the model?", ["regress", name]),
        ("# files and a C header for a host of your own", ["emit", name, "-o", "out"]),
    )
    return Section(
        "again",
        "Again",
        [Commands([line for comment, words in verbs for line in (comment, shlex.join(["autotune", *words]))])],
    )
