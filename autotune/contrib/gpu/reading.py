"""`show`, `compare`, `inspect` and `report` of kernels for a GPU, without a GPU."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.say import complain
from autotune.contrib.gpu.files import holds_kernels, home_of, is_kernel_folder
from autotune.core.host.whole_file import write_file
from autotune.plugins import Arguments, VerbOption, option
from autotune.store.folders import slug

if TYPE_CHECKING:
    from autotune.contrib.gpu.device import Device
    from autotune.contrib.gpu.rank import RankedKernel
    from autotune.contrib.gpu.records import KernelSweep

TARGET = option(
    "target",
    Annotated[
        str, typer.Option(metavar="vulkan|nvptx[:CHIP]", help="Of a kernel for that GPU, which is not run on one.")
    ],
    "",
)


def show_kernel_stage(arguments: Arguments) -> None:
    """`show --target DEVICE`, or of a folder that `tune --target` wrote."""
    from autotune.cli.highlight import print_code
    from autotune.contrib.gpu.show import show_difference, show_stage
    from autotune.core.errors import ScheduleError
    from autotune.core.progress import ProgressLine
    from autotune.worker.loading.reading import ScriptFile

    refuse("kernels for a GPU have one family a task and no rewrite rules", arguments, ("family", "rules", "exact"))
    source, target, stage = arguments["source"], arguments["target"], arguments["stage"]
    script = ScriptFile.read(arguments["schedule"]).text if arguments["schedule"] is not None else ""
    if script and arguments["diff"] is not None:
        raise ScheduleError("--diff must be of configs or stages of a family's script; drop --schedule")
    with ProgressLine() as line:
        line.stage(f"reading {source}")
        if arguments["diff"] is None:
            text = show_stage(source, target, stage, task=arguments["task"], config=arguments["config"], script=script)
        else:
            text = show_difference(source, target, stage, arguments["diff"], arguments["task"])
    if arguments["output"] is not None:
        write_file(arguments["output"], text.rstrip() + "\n")
    else:
        print_code(text.rstrip(), is_diff=arguments["diff"] is not None)


def compare_kernels(arguments: Arguments) -> None:
    """`compare --target DEVICE`: compare kernels by the cost model; exit 1 if one is wrong."""
    from autotune.cli.reading import read_payloads
    from autotune.contrib.gpu.device import find_device
    from autotune.contrib.gpu.rank import rank_kernels
    from autotune.contrib.gpu.tune import KernelWorkshop, units_of
    from autotune.contrib.gpu.vulkan import find_lavapipe
    from autotune.core.progress import ProgressLine
    from autotune.worker.isolation.limits import MODEL_SECONDS
    from autotune.worker.worker import Worker

    why = "no library runs on a GPU that is not here, and nothing is timed"
    refuse(why, arguments, ("against", "beside", "error"))
    device, driver = find_device(arguments["target"]), find_lavapipe()
    with ProgressLine() as line:
        (payload,) = read_payloads([arguments["payload"]], line)
        folder = arguments["bundle"] or home_of(device.name) / slug(payload.name)
        with Worker(MODEL_SECONDS) as worker:
            ranked = list(rank_kernels(units_of(payload), folder, KernelWorkshop(device, worker, driver)))
    if arguments["as_json"]:
        typer.echo(json.dumps([{**each.to_json(), "measured": False} for each in ranked]))
    else:
        show_ranked(payload.name, device, ranked)
    if any(each.record.outcome != "ok" for each in ranked):
        raise typer.Exit(1)


def show_ranked(payload: str, device: "Device", ranked: "Sequence[RankedKernel]") -> None:
    """Print a table of kernels for each task, and the limits of what it shows."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.reports.format import out

    console = out()
    for task in dict.fromkeys(each.task for each in ranked):
        kernels = [each for each in ranked if each.task == task]
        least = min((each.record.cycles for each in kernels if each.record.cycles is not None), default=0.0)
        rows = []
        for each in kernels:
            record = each.record
            if record.cycles is None:
                rows.append(TextRow(each.name, (record.outcome, "-", "-", "-", "-"), record.diagnostic))
                continue
            error = f"{record.max_error:.2g}" if record.max_error is not None else "-"
            ratio, registers = f"{record.cycles / least:.2f}", str(record.registers or "-")
            rows.append(TextRow(each.name, (f"{record.cycles:.3g}", ratio, f"{record.share:.0%}", registers, error)))
        heads = ("cycles", "over least", "of FMA roof", "registers", "max error")
        show_table(console, Table(task, tuple(map(Column, heads)), tuple(rows)))
    show_sentence(
        console,
        f"{payload} for {device.name}: verified on lavapipe; cycles are a model's, which ranks kernels and is nobody's "
        "speed; nothing is timed, and no library can be beside them without the device",
    )


def inspect_kernels(arguments: Arguments) -> None:
    """`inspect` of a store of kernels, or of a folder that `tune --target` wrote."""
    from autotune.contrib.gpu.page import read_sweeps, to_json

    refuse(
        "kernels for a GPU have no times to draw or to query",
        arguments,
        ("payload", "where", "plots", "history", "against", "csv", "parquet", "why"),
    )
    source = arguments["source"] or arguments["store"]
    sweeps = read_sweeps(source, arguments["store"] if arguments["source"] else None)
    if arguments["as_json"]:
        typer.echo(json.dumps([to_json(sweep) for sweep in sweeps]))
    else:
        show_sweeps(sweeps, full=arguments["full"])


def show_sweeps(sweeps: "Sequence[KernelSweep]", *, full: bool) -> None:
    """Print a line for each task, with the best config."""
    from autotune.cli.inspect_store import config_text
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.contrib.gpu.page import MEASURED_NOTHING, changed, over_default
    from autotune.contrib.gpu.records import outcomes_of
    from autotune.reports.format import out

    console, columns = out(), tuple(map(Column, ("cycles", "of FMA roof", "trials", "failed", "speed-up")))
    for device in dict.fromkeys(sweep.facts.device for sweep in sweeps):
        rows = []
        for sweep in (each for each in sweeps if each.facts.device == device):
            records, best, gain = list(sweep.records.values()), sweep.best, over_default(sweep)
            counts = (str(len(records)), str(sum(each.outcome != "ok" for each in records)))
            how = "" if sweep.facts.verified else "not verified"
            if best is None or best.cycles is None:
                outcomes = ", ".join(f"{number} {outcome}" for outcome, number in outcomes_of(records).items())
                rows.append(TextRow(sweep.facts.payload, ("-", "-", *counts, "-"), f"none is right: {outcomes}"))
                continue
            text = config_text(sweep.facts.family, best.config, changed(sweep, best), full=full)
            cells = (f"{best.cycles:.3g}", f"{best.share:.0%}", *counts, f"{gain:.2f}x" if gain else "-")
            rows.append(TextRow(sweep.facts.payload, cells, "; ".join(filter(None, (text, how)))))
        show_table(console, Table(device, columns, tuple(rows), "" if full else "not as by default"))
    show_sentence(
        console, f"{MEASURED_NOTHING}; speed-up: over the default config by the model" if sweeps else "no trials"
    )


def report_kernels(arguments: Arguments) -> None:
    """`report` of a store of kernels, or of a folder that `tune --target` wrote."""
    from autotune.cli.report import show_page
    from autotune.contrib.gpu.page import write_kernel_page

    rejected = [name for name, value in arguments.items() if value is True and name != "opens"]
    if rejected:
        raise typer.BadParameter(f"sections of plug-ins go with a bundle of measured schedules; drop --{rejected[0]}")
    write_file(arguments["output"], write_kernel_page(arguments["source"], arguments["store"]))
    complain(str(arguments["output"]))
    if arguments["opens"]:
        show_page(arguments["output"])


def refuse(why: str, arguments: Arguments, names: Sequence[str]) -> None:
    """Reject options that the command does not support for kernels.

    Raises:
        BadParameter: Such an option is given.
    """
    flags = {"against": "compare", "as_json": "json"} if "plots" in arguments else {}
    rejected = [flags.get(name, name) for name in names if arguments.get(name)]
    if rejected:
        raise typer.BadParameter(f"{why}; drop --{rejected[0]}")


def takes_kernels(arguments: Arguments) -> bool:
    """Return whether a source is a folder that `tune --target` wrote, or a store of such kernels."""
    sources = [arguments[name] for name in ("source", "store") if arguments.get(name)]
    return any(is_kernel_folder(Path(each)) or holds_kernels(each) for each in sources[:1])


SHOW = VerbOption(
    "show",
    (TARGET,),
    lambda given: bool(given["target"]) or is_kernel_folder(Path(given["source"])),
    show_kernel_stage,
    first=True,
)
COMPARE = VerbOption(
    "compare",
    (TARGET,),
    lambda given: bool(given["target"]),
    compare_kernels,
    ignores=("baseline", "seed", "threads", "rivals"),
)
INSPECT = VerbOption("inspect", (), takes_kernels, inspect_kernels, ignores=("top",))
REPORT = VerbOption("report", (), takes_kernels, report_kernels)
