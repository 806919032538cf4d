"""`autotune tune --target vulkan`: kernels for a GPU, verified without one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.say import complain
from autotune.cli.tune import ELSEWHERE, FOR, check_folder, check_modelled
from autotune.contrib.gpu.files import (
    BINARY,
    CHOSEN,
    NVPTX,
    PAYLOAD,
    PROGRAM,
    PTX,
    SCHEDULE,
    STORE,
    home_of,
    is_kernel_folder,
    task_folder,
)
from autotune.core.host.whole_file import write_file
from autotune.plugins import Arguments, Listing, MachineFact, VerbOption, option
from autotune.store.folders import slug

if TYPE_CHECKING:
    from autotune.contrib.gpu.device import Device
    from autotune.contrib.gpu.folder import KernelReplay
    from autotune.contrib.gpu.tune import TaskKernel, Units
    from autotune.contrib.gpu.whole import Whole
    from autotune.core.payload import Payload
    from autotune.tuning.options import TuneOptions


def choose_kernel(arguments: Arguments) -> None:
    """`tune --target DEVICE`: candidates are verified and none is measured."""
    tune_unmeasured(arguments, arguments["target"], "--target", verified=True)


def choose_by_model(arguments: Arguments) -> None:
    """`tune --for nvptx:CHIP`: select by the cost model only, for any sizes; nothing is verified or measured."""
    tune_unmeasured(arguments, arguments["kind"], "--for", verified=False)


def tune_unmeasured(arguments: Arguments, spec: str, option_name: str, *, verified: bool) -> None:
    """Search kernels by the cost model, with the options trials, sampler and seed only."""
    from autotune.cli.reading import read_payloads
    from autotune.contrib.gpu.device import find_device
    from autotune.core.progress import ProgressLine
    from autotune.tuning.options import options_given

    device = find_device(spec, option_name)
    check_folder(arguments["payloads"], arguments["bundle"])
    options = options_given(arguments)
    check_modelled(options, arguments, f"{option_name} {device.name}", ())
    with ProgressLine() as line:
        loaded = read_payloads(arguments["payloads"], line)
    output = {"folder": arguments["bundle"], "as_json": arguments["as_json"], "verified": verified}
    tune_kernels(loaded, device, options, store=arguments["store"], **output)


def tune_kernels(
    payloads: "Sequence[Payload]",
    device: "Device",
    options: "TuneOptions",
    *,
    store: str | None,
    folder: Path | None,
    as_json: bool,
    verified: bool = True,
) -> None:
    """Search and write a kernel for each payload, or for each of its tasks; exit 1 if a task has no correct kernel.

    Args:
        payloads: Payloads to search kernels for.
        device: Target device.
        options: Options of `tune`.
        store: Store of the trials; by default the device's in this folder.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Whether to print JSON.
        verified: Whether to run kernels and compare their results; otherwise only the cost model is used.
    """
    from autotune.contrib.gpu.tune import KernelWorkshop, tune_kernel, units_of
    from autotune.contrib.gpu.vulkan import find_lavapipe
    from autotune.core.progress import ProgressLine
    from autotune.store.store import Store
    from autotune.worker.worker import Worker

    driver, failed = find_lavapipe() if verified else None, False
    with Store.open(store or home_of(device.name) / STORE) as opened:
        for message in opened.messages:
            complain(message)
        for payload in payloads:
            whole, units = folder or home_of(device.name) / slug(payload.name), units_of(payload, verified=verified)
            trials, several = max(1, options.trials // len(units.payloads)), units.several
            kernels = []
            with Worker(options.timeout) as worker:
                workshop = KernelWorkshop(device, worker, driver, opened)
                for unit in units.payloads:
                    directory = task_folder(whole, unit.name, several=several)
                    with ProgressLine(unit.name) as line:
                        kernels.append(tune_kernel(unit, replace(options, trials=trials), workshop, line))
                    write_kernel(kernels[-1], device, directory)
                    if as_json:
                        typer.echo(json.dumps(kernels[-1].to_json() | {"target": device.name, "files": str(directory)}))
                    else:
                        show_kernel(kernels[-1], device, directory)
                if several and verified:
                    assembled = units.assembled(kernels, workshop)
                    failed = failed or (assembled is not None and assembled.outcome != "ok")
                    tell_whole(payload, units, assembled, whole, device, as_json=as_json)
            failed = failed or any(kernel.best is None for kernel in kernels)
    if failed:
        raise typer.Exit(1)


def tell_whole(
    payload: "Payload", units: "Units", assembled: "Whole | None", folder: Path, device: "Device", *, as_json: bool
) -> None:
    """Write and print the assembled program of a payload of several tasks.

    Args:
        payload: Payload of several tasks.
        units: Tasks of the payload.
        assembled: Assembled program; `None` if a kernel is missing.
        folder: Folder to write to.
        device: Target device.
        as_json: Whether to print JSON.
    """
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import out

    if assembled is None:
        if not as_json:
            show_sentence(out(), f"{payload.name}: {units.sentence}")
        return
    if assembled.plan is not None:
        folders = {tag: slug(unit.name) for tag, unit in zip(units.tags, units.payloads, strict=True)}
        write_program(payload, assembled, folder, folders, device)
    if as_json:
        typer.echo(json.dumps({"payload": payload.name, "target": device.name} | assembled.to_json()))
        return
    for sentence in sentences_of_whole(payload, assembled):
        show_sentence(out(), sentence)
    if assembled.plan is not None:
        out().print(f"  files: {folder}: {PROGRAM}, and a folder a kernel", soft_wrap=True, markup=False)


def write_program(
    payload: "Payload", assembled: "Whole", folder: Path, folders: dict[str, str], device: "Device"
) -> None:
    """Write the host program as JSON, and its copy kernels; the kernels of tasks are in their folders already.

    Args:
        payload: Payload of several tasks.
        assembled: Launches and kernels of the payload.
        folder: Folder to write to.
        folders: Subfolder of each task's kernel, by tag.
        device: Target device.
    """
    from autotune.contrib.gpu.folder import record_of

    kernels, file = {}, PTX if device.chip else BINARY
    for name, written in (assembled.kernels or {}).items():
        directory = folder / folders.get(name, name)
        if name not in folders:
            directory.mkdir(parents=True, exist_ok=True)
            write_file(directory / file, written.ptx.encode() if device.chip else written.binary)
        kernel = written.kernel
        kernels[name] = {
            "file": str((directory / file).relative_to(folder)),
            "entry": kernel.name,
            "block": kernel.block,
            "grid": kernel.grid,
        }
    names = [*(argument.name for argument in payload.arguments), "intermediates"]
    write_file(folder / PAYLOAD, payload.text)
    recorded = {"payload": record_of(payload), "target": device.name, "buffers": names, "kernels": kernels}
    write_file(folder / PROGRAM, json.dumps(recorded | assembled.to_json(), indent=1) + "\n")


def sentences_of_whole(payload: "Payload", assembled: "Whole") -> list[str]:
    """Describe the assembled program of a payload of several tasks."""
    from autotune.reports.format import error_beside

    if assembled.outcome != "ok" or assembled.plan is None:
        return [f"{payload.name}: the whole is not right: {assembled.outcome}: {assembled.diagnostic}"]
    plan = assembled.plan
    beside = error_beside(assembled.max_error, assembled.oracle, unproved=payload.unproved)
    copied = f", {plan.copied} of them copies or fills" if plan.copied else ""
    return [
        f"{payload.name} as a whole: right, {beside}, on lavapipe; {len(plan.launches)} launches of "
        f"{len(assembled.kernels or ())} kernels{copied}; intermediates take {plan.arena_bytes} bytes "
        f"({plan.separate_bytes} each alone), arguments stay where they are"
    ]


def write_kernel(tuned: "TaskKernel", device: "Device", folder: Path) -> None:
    """Write the best kernel, its script, and the facts that a host needs to run it."""
    from autotune.contrib.gpu.folder import record_of

    folder.mkdir(parents=True, exist_ok=True)
    recorded = tuned.to_json() | {"target": device.name, "payload": record_of(tuned.payload)}
    write_file(folder / PAYLOAD, tuned.payload.text)
    best, chosen = tuned.best, tuned.chosen
    if best is not None and chosen is not None and (kernel := chosen.made.kernel) is not None:
        names = [argument.name for argument in tuned.payload.arguments]
        bindings = [names[number] for number in kernel.arguments]
        recorded |= {"entry": kernel.name, "block": kernel.block, "grid": kernel.grid, "bindings": bindings}
        write_file(folder / SCHEDULE, best.script)
        if device.chip:
            write_file(folder / PTX, chosen.made.ptx)
        else:
            write_file(folder / BINARY, chosen.binary)
    write_file(folder / CHOSEN, json.dumps(recorded, indent=1) + "\n")


def show_kernel(tuned: "TaskKernel", device: "Device", folder: Path) -> None:
    """Print the best kernel, how it was verified, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import out

    console, count = out(), len(tuned.tried)
    how = "verified, not measured" if tuned.facts.verified else "chosen by a model; not verified, not measured"
    show_sentence(console, f"{tuned.payload.name} for {device.name}: {how}")
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in tuned.outcomes.items())
    if tuned.best is None:
        show_sentence(console, f"none of {count} configs is right: {outcomes}; {tuned.tried[0].record.diagnostic}", 2)
        return
    known = f", {tuned.recorded} of them recorded before" if tuned.recorded else ""
    ending = [sentence_of_ptx(tuned)] if device.chip else []
    for sentence in (*sentences_of(tuned), check_of(tuned), *ending, f"{count} configs: {outcomes}{known}"):
        show_sentence(console, sentence, 2)
    console.print(
        f"  files: {folder}: {PTX if device.chip else BINARY}, {SCHEDULE}, {CHOSEN}", soft_wrap=True, markup=False
    )


def check_of(tuned: "TaskKernel") -> str:
    """Describe how the best kernel was checked."""
    from autotune.reports.format import error_beside

    if not tuned.facts.verified or tuned.best is None:
        return f"{blocks_of(tuned)} thread by thread without a race; no result was compared: --target does that"
    error = tuned.best.record.max_error or 0.0
    beside = error_beside(error, tuned.payload.oracle, unproved=tuned.payload.unproved)
    return f"right, {beside}, on lavapipe; {blocks_of(tuned)} thread by thread without a race"


def sentence_of_ptx(tuned: "TaskKernel") -> str:
    """Describe the figures of ptxas for the best kernel, whose PTX was not run."""
    from autotune.contrib.gpu.nvptx import WHEEL

    assembled = tuned.chosen.assembled if tuned.chosen is not None else None
    if assembled is None:
        return f"PTX, not run and not assembled: ptxas is missing; pip install {WHEEL}"
    return f"PTX, not run: {assembled.registers} registers a thread and no spill by ptxas {assembled.version}"


def blocks_of(tuned: "TaskKernel") -> str:
    """Describe how many blocks of the best kernel were interpreted."""
    compiled = tuned.chosen.made if tuned.chosen is not None else None
    if compiled is None or compiled.kernel is None:
        return "none"
    count = compiled.kernel.blocks
    return f"{compiled.blocks} of {count} blocks" if compiled.blocks < count else "all blocks"


def sentences_of(tuned: "TaskKernel") -> list[str]:
    """Describe the cost model's estimate of the best kernel."""
    best, default = tuned.best, tuned.tried[0].record
    kernel = tuned.chosen.made.kernel if tuned.chosen is not None else None
    if best is None or best.record.cycles is None or kernel is None:
        return []
    record = best.record
    gain = (default.cycles or best.record.cycles) / best.record.cycles
    same = "the default" if record.config == default.config else f"{gain:.3f} x the default's rate"
    config = " ".join(f"{name}={value}" for name, value in record.config.items())
    share = f" ({record.share:.0%} of the device's multiply-adds)" if record.share else ""
    return [
        f"{tuned.facts.task} by {tuned.facts.family}: {record.cycles:.3g} cycles by a model{share}, "
        f"bound by {record.bound}, {same}",
        config,
        f"grid of {' x '.join(map(str, kernel.grid))} blocks of {' x '.join(map(str, kernel.block))} threads, "
        f"{kernel.workgroup_bytes} bytes of workgroup memory, {kernel.barriers} barriers",
    ]


def summaries() -> dict[str, str]:
    """Return a one-line description of each device, by name."""
    from autotune.contrib.gpu.device import CHIPS, VULKAN, nvidia

    return {device.name: device.summary for device in (VULKAN, *map(nvidia, CHIPS))}


def describe_lavapipe() -> str:
    """Describe whether kernels can be verified on this machine, or what is missing."""
    from autotune.contrib.gpu.vulkan import find_lavapipe, missing_parts, way_out

    if missing := missing_parts():
        return f"none for `tune --target vulkan`, {', '.join(missing)} missing; {way_out()}"
    return f"lavapipe for `tune --target vulkan`, {find_lavapipe().driver}"


def describe_nvidia() -> str:
    """Describe the installed assembler and disassembler of PTX, or what is missing."""
    from autotune.contrib.gpu.nvptx import READER, WHEEL, find_ptxas, find_tool, version_of

    ptxas, reader = find_ptxas(), find_tool("nvdisasm")
    if ptxas is None:
        return (
            f"PTX is neither assembled nor disassembled for `tune --target nvptx`, ptxas missing; pip install {WHEEL}"
        )
    text = f"ptxas {version_of(ptxas)} for `tune --target nvptx`, never run"
    if reader is None:
        return f"{text}; nvdisasm missing for `show --stage sass`, pip install {READER}"
    return f"{text}; nvdisasm {version_of(reader)}"


def replay_kernels(arguments: Arguments) -> None:
    """`replay` of a folder that `tune --target` wrote: compile and verify the kernels again; exit 1 if one is wrong."""
    rejected = [name for name in ("emit", "retune", "store", "output", "payload", "emulate") if arguments[name]]
    if rejected:
        raise typer.BadParameter(f"kernels for a GPU are made again and verified, no more; drop --{rejected[0]}")
    replays = replayed(arguments["bundle"])
    tell_replays(replays, [replay.sentence for replay in replays], as_json=arguments["as_json"])
    if any(replay.outcome != "ok" for replay in replays):
        raise typer.Exit(1)


def regress_kernels(arguments: Arguments) -> None:
    """`regress` of such folders: exit 1 if a kernel is wrong, or has more estimated cycles than recorded."""
    folders = arguments["bundles"]
    rejected = [name for name in ("update", "history", "output", "junit_file") if arguments[name]]
    if rejected or not all(map(is_kernel_folder, folders)):
        unsupported = f"--{rejected[0].removesuffix('_file')}" if rejected else "other bundles"
        raise typer.BadParameter(f"kernels for a GPU are verified again alone, nothing is measured; drop {unsupported}")
    replays = [replay for folder in folders for replay in replayed(folder)]
    tell_replays(replays, [f"{each.verdict:<7} {each.sentence}" for each in replays], as_json=arguments["as_json"])
    if any(replay.verdict != "ok" for replay in replays):
        raise typer.Exit(1)


def replayed(folder: Path) -> "list[KernelReplay]":
    """Compile and verify the kernels of a folder again."""
    from autotune.contrib.gpu.folder import read_folder, replay_folder
    from autotune.contrib.gpu.tune import KernelWorkshop
    from autotune.contrib.gpu.vulkan import find_lavapipe
    from autotune.core.progress import ProgressLine
    from autotune.worker.isolation.limits import MODEL_SECONDS
    from autotune.worker.worker import Worker

    kernel_folder = read_folder(folder)
    with ProgressLine(str(folder)), Worker(MODEL_SECONDS) as worker:
        return replay_folder(kernel_folder, KernelWorkshop(kernel_folder.device, worker, find_lavapipe()))


def tell_replays(replays: "list[KernelReplay]", sentences: list[str], *, as_json: bool) -> None:
    """Print the results of replayed kernels."""
    from dataclasses import asdict

    from autotune.cli.layout import show_sentence
    from autotune.reports.format import out

    if as_json:
        typer.echo(json.dumps([asdict(replay) | {"verdict": replay.verdict} for replay in replays]))
        return
    for sentence in sentences:
        show_sentence(out(), sentence)


def emit_kernels(arguments: Arguments) -> None:
    """`emit` of such a folder: write its kernels and a C header with bindings and launches."""
    from autotune.contrib.gpu.folder import read_folder
    from autotune.contrib.gpu.header import emit_folder

    if len(arguments["bundles"]) > 1 or arguments["target"] or arguments["weights"] or arguments["payload"]:
        raise typer.BadParameter("kernels for a GPU are emitted as they are, one folder at a time; drop the rest")
    for path in emit_folder(read_folder(arguments["bundles"][0]), arguments["output"]):
        typer.echo(path)


def takes_kernels(parameter: str) -> Callable[[Arguments], bool]:
    """Return a predicate of a command's arguments: whether a source is a folder that `tune --target` wrote.

    Args:
        parameter: Parameter of the command that names its source or sources.
    """

    def takes(arguments: Arguments) -> bool:
        value = arguments[parameter]
        return any(
            is_kernel_folder(Path(each)) for each in (value if isinstance(value, list) else filter(None, (value,)))
        )

    return takes


REPLAY = VerbOption("replay", (), takes_kernels("bundle"), replay_kernels, ignores=("timeout",))
REGRESS = VerbOption("regress", (), takes_kernels("bundles"), regress_kernels, ignores=("factor", "quick", "patience"))
EMIT = VerbOption("emit", (), takes_kernels("bundles"), emit_kernels, ignores=("form",))
DEVICES = Listing(summaries)
FACT = MachineFact(describe_lavapipe)
NVIDIA_FACT = MachineFact(describe_nvidia)
TUNE = VerbOption(
    "tune",
    (
        option(
            "target",
            Annotated[
                str,
                typer.Option(
                    rich_help_panel=ELSEWHERE,
                    metavar="vulkan|nvptx[:CHIP]",
                    help="A GPU to write a kernel for: verified on the CPU, never measured.",
                ),
            ],
            "",
        ),
    ),
    takes=lambda arguments: bool(arguments["target"]),
    run=choose_kernel,
)
TUNE_FOR = VerbOption(
    "tune",
    (FOR,),
    takes=lambda given: given["kind"].split(":")[0] == NVPTX and not given.get("cluster"),
    run=choose_by_model,
    first=True,
)
