"""Last section of the report: commands that reproduce the result, files with hashes, and versions."""

import shlex
from collections.abc import Sequence
from hashlib import sha256

from autotune.reports.format import size
from autotune.reports.sections.blocks import (
    Commands,
    DataTable,
    FoldedSection,
    Paragraph,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from autotune.reports.sections.tasks import code_of
from autotune.store.bundle import BundleFiles
from autotune.store.manifest import MANIFEST_FILE, read_bytes

ANCHOR, TITLE = "again", "How to run it again"


def again_with_bundle(bundle: BundleFiles) -> Section:
    """Return the section with commands that replay, check and repeat a bundle, its files with hashes, and packages."""
    name, data = bundle.folder.absolute().name, bundle.manifest
    task = [part for tag in list(data.tasks)[:1] for part in ("--task", tag)]
    lines = [
        "# build it again, verify it, time it beside its baseline",
        shlex.join(["autotune", "replay", name]),
        "# slower or wrong here, with this compiler?",
        shlex.join(["autotune", "regress", name]),
        "# the hot loop of a task",
        shlex.join(["autotune", "show", name, "--stage", "asm", *task]),
        "# search again from nothing, as it came about",
        tune_command(data.command, data.payload),
    ]
    text = f"The bundle is a folder of plain text, {name}; the commands are for the folder it lies in. "
    packages = [[TableCell(package), TableCell(version)] for package, version in data.versions.packages.items()]
    installed = DataTable(
        "What was installed.", [TableColumn("package"), TableColumn("version")], list(map(TableRow, packages))
    )
    files = file_table(bundle)
    return Section(
        ANCHOR,
        TITLE,
        [
            Paragraph(f"{text}A replay checks every hash before it compiles anything."),
            Commands(lines),
            FoldedSection(f"{len(files.rows)} files and their hashes", [files]),
            FoldedSection(f"{len(packages)} packages", [installed]),
            code_of("The whole script, schedule.mlir", bundle.script),
        ],
    )


def tune_command(command: Sequence[str], payload: str) -> str:
    """Return the recorded command line that repeats the tuning."""
    return shlex.join(["autotune", "tune", *(command[2:] if len(command) > 2 else [payload])])


def file_table(bundle: BundleFiles) -> DataTable:
    """Return a table of the bundle's files with their sizes and SHA-256."""
    data = read_bytes(bundle.folder / MANIFEST_FILE)
    files = [(MANIFEST_FILE, len(data), sha256(data).hexdigest())]
    files += [(name, len(text.encode()), bundle.manifest.sha256[name]) for name, text in bundle.texts.items()]
    cells = [[TableCell(name), TableCell(size(count), count), TableCell(digest)] for name, count, digest in files]
    columns = [TableColumn("file"), TableColumn("size", numeric=True), TableColumn("sha256")]
    return DataTable("Every file of the bundle.", columns, list(map(TableRow, cells)))


def again_with_store(location: str, payloads: Sequence[str]) -> Section:
    """Return the section with commands that inspect a store and continue its searches."""
    lines = ["# every sweep, best configs, outcomes", shlex.join(["autotune", "inspect", location])]
    lines += ["# go on searching: trials in the store are not run again"] if payloads else []
    lines += [shlex.join(["autotune", "tune", payload, "--store", location]) for payload in payloads]
    return Section(ANCHOR, TITLE, [Commands(lines)])
