"""`autotune tune --target vulkan`: kernels for a GPU, verified without one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.tune import ELSEWHERE, check_folder, check_modelled
from autotune.contrib.gpu.files import BINARY, CHOSEN, PAYLOAD, PROGRAM, PTX, SCHEDULE, is_kernel_folder
from autotune.plugins import Arguments, Listing, MachineFact, VerbOption, option
from autotune.store.places import OUTPUT, slug

if TYPE_CHECKING:
    from autotune.contrib.gpu.device import Device
    from autotune.contrib.gpu.folder import KernelReplay
    from autotune.contrib.gpu.tune import TaskKernel, Units
    from autotune.contrib.gpu.whole import Whole
    from autotune.core.payload import Payload
    from autotune.tuning.options import TuneOptions


def choose_kernel(arguments: Arguments) -> None:
    """`tune --target DEVICE`: nothing is measured, so that of a search it takes trials, sampler and seed alone."""
    from autotune.cli.reading import read_payloads
    from autotune.contrib.gpu.device import find_device
    from autotune.core.progress import ProgressLine
    from autotune.tuning.options import options_given

    device = find_device(arguments["target"])
    check_folder(arguments["payloads"], arguments["bundle"])
    options = options_given(arguments)
    check_modelled(options, arguments, f"--target {device.name}", ("store",))
    with ProgressLine() as line:
        loaded = read_payloads(arguments["payloads"], line)
    tune_kernels(loaded, device, options, folder=arguments["bundle"], as_json=arguments["as_json"])


def tune_kernels(
    payloads: "Sequence[Payload]", device: "Device", options: "TuneOptions", *, folder: Path | None, as_json: bool
) -> None:
    """Search a kernel for each payload, or each task of one of several; write them, exit 1 if none is right for one.

    Args:
        payloads: What is computed.
        device: What kernels are for.
        options: Options of `tune`.
        folder: Folder to write to; by default one below ``tuned/``.
        as_json: Print JSON.
    """
    from autotune.contrib.gpu.tune import tune_kernel, units_of
    from autotune.contrib.gpu.vulkan import find_lavapipe
    from autotune.core.progress import ProgressLine
    from autotune.worker.worker import Worker

    driver, wrong = find_lavapipe(), False
    for payload in payloads:
        whole, units = folder or OUTPUT / slug(f"for-{device.name}") / slug(payload.name), units_of(payload)
        each, several = replace(options, trials=max(1, options.trials // len(units.payloads))), units.tagged is not None
        kernels = []
        with Worker(options.timeout) as worker:
            for unit in units.payloads:
                place = whole / slug(unit.name) if several else whole
                with ProgressLine(unit.name) as line:
                    kernels.append(tune_kernel(unit, device, each, line, worker=worker, driver=driver))
                write_kernel(kernels[-1], device, place)
                if as_json:
                    typer.echo(json.dumps(kernels[-1].to_json() | {"target": device.name, "files": str(place)}))
                else:
                    show_kernel(kernels[-1], device, place)
            if several:
                assembled = units.assembled(kernels, device, worker, driver)
                wrong = wrong or (assembled is not None and assembled.outcome != "ok")
                tell_whole(payload, units, assembled, whole, device, as_json=as_json)
        wrong = wrong or any(kernel.best is None for kernel in kernels)
    if wrong:
        raise typer.Exit(1)


def tell_whole(
    payload: "Payload", units: "Units", assembled: "Whole | None", folder: Path, device: "Device", *, as_json: bool
) -> None:
    """Write and print what became of a payload of several tasks.

    Args:
        payload: The payload.
        units: Tasks of the payload.
        assembled: The whole; `None` where a kernel is missing.
        folder: Folder to write to.
        device: What kernels are for.
        as_json: Print JSON.
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
    """Write what a host must do, as JSON, and the kernels that copy; those of tasks are in their folders already.

    Args:
        payload: The payload.
        assembled: Launches and kernels of the payload.
        folder: Folder to write to.
        folders: Folder in it of the kernel of each task, by tag.
        device: What kernels are for.
    """
    from autotune.contrib.gpu.folder import record_of

    kernels, file = {}, PTX if device.chip else BINARY
    for name, written in (assembled.kernels or {}).items():
        place = folder / folders.get(name, name)
        if name not in folders:
            place.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(written.ptx.encode() if device.chip else written.binary)
        kernel = written.kernel
        kernels[name] = {
            "file": str((place / file).relative_to(folder)),
            "entry": kernel.name,
            "block": kernel.block,
            "grid": kernel.grid,
        }
    names = [*(argument.name for argument in payload.arguments), "intermediates"]
    (folder / PAYLOAD).write_text(payload.text)
    told = {"payload": record_of(payload), "target": device.name, "buffers": names, "kernels": kernels}
    (folder / PROGRAM).write_text(json.dumps(told | assembled.to_json(), indent=1) + "\n")


def sentences_of_whole(payload: "Payload", assembled: "Whole") -> list[str]:
    """What became of a payload of several tasks."""
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


def write_kernel(tuned: "TaskKernel", device: "Device", place: Path) -> None:
    """Write the chosen kernel, its script, and what a host must know to run it."""
    from autotune.contrib.gpu.folder import record_of

    place.mkdir(parents=True, exist_ok=True)
    told = tuned.to_json() | {"target": device.name, "payload": record_of(tuned.payload)}
    (place / PAYLOAD).write_text(tuned.payload.text)
    best = tuned.best
    if best is not None and (kernel := best.examined.made.kernel) is not None:
        names = [argument.name for argument in tuned.payload.arguments]
        bindings = [names[number] for number in kernel.arguments]
        told |= {"entry": kernel.name, "block": kernel.block, "grid": kernel.grid, "bindings": bindings}
        (place / SCHEDULE).write_text(best.script)
        if device.chip:
            (place / PTX).write_text(best.examined.made.ptx)
        else:
            (place / BINARY).write_bytes(best.examined.binary)
    (place / CHOSEN).write_text(json.dumps(told, indent=1) + "\n")


def show_kernel(tuned: "TaskKernel", device: "Device", place: Path) -> None:
    """Print what the model chose, how it was verified, and that nothing was measured."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import error_beside, out

    console, best, count = out(), tuned.best, len(tuned.tried)
    show_sentence(console, f"{tuned.payload.name} for {device.name}: verified, not measured")
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in tuned.outcomes.items())
    if best is None:
        show_sentence(console, f"none of {count} configs is right: {outcomes}; {tuned.tried[0].examined.diagnostic}", 2)
        return
    for sentence in sentences_of(tuned):
        show_sentence(console, sentence, 2)
    beside = error_beside(best.examined.max_error, tuned.payload.oracle, unproved=tuned.payload.unproved)
    show_sentence(console, f"right, {beside}, on lavapipe; {blocks_of(tuned)} thread by thread without a race", 2)
    if device.chip:
        show_sentence(console, sentence_of_ptx(tuned), 2)
    show_sentence(console, f"{count} configs: {outcomes}", 2)
    console.print(
        f"  files: {place}: {PTX if device.chip else BINARY}, {SCHEDULE}, {CHOSEN}", soft_wrap=True, markup=False
    )


def sentence_of_ptx(tuned: "TaskKernel") -> str:
    """What ptxas says of the chosen kernel, which nobody ran as PTX."""
    from autotune.contrib.gpu.nvptx import WHEEL

    assembled = tuned.best.examined.assembled if tuned.best is not None else None
    if assembled is None:
        return f"PTX, not run and not assembled: ptxas is missing; pip install {WHEEL}"
    return f"PTX, not run: {assembled.registers} registers a thread and no spill by ptxas {assembled.version}"


def blocks_of(tuned: "TaskKernel") -> str:
    """How many blocks of the chosen kernel were run thread by thread."""
    made = tuned.best.examined.made if tuned.best is not None else None
    if made is None or made.kernel is None:
        return "none"
    count = made.kernel.blocks
    return f"{made.blocks} of {count} blocks" if made.blocks < count else "all blocks"


def sentences_of(tuned: "TaskKernel") -> list[str]:
    """What the model says of the chosen kernel."""
    from autotune.contrib.gpu.tune import cycles_of

    best, default = tuned.best, tuned.tried[0]
    if best is None or best.examined.estimate is None or best.examined.made.kernel is None:
        return []
    modelled, kernel = best.examined.estimate, best.examined.made.kernel
    gain = (cycles_of(default) or modelled.cycles) / modelled.cycles
    same = "the default" if best.config == default.config else f"{gain:.3f} x the default's rate"
    config = " ".join(f"{name}={value}" for name, value in best.config.items())
    share = f" ({modelled.fused:.0%} of the device's multiply-adds)" if modelled.fused else ""
    return [
        f"{tuned.task} by {tuned.family}: {modelled.cycles:.3g} cycles by a model{share}, bound by {modelled.bound}, "
        f"{same}",
        config,
        f"grid of {' x '.join(map(str, kernel.grid))} blocks of {' x '.join(map(str, kernel.block))} threads, "
        f"{kernel.workgroup_bytes} bytes of workgroup memory, {kernel.barriers} barriers",
    ]


def summaries() -> dict[str, str]:
    """A line for each device, by name."""
    from autotune.contrib.gpu.device import CHIPS, VULKAN, nvidia

    return {device.name: device.summary for device in (VULKAN, *map(nvidia, CHIPS))}


def describe_lavapipe() -> str:
    """Whether kernels can be verified here, or what is missing."""
    from autotune.contrib.gpu.vulkan import find_lavapipe, missing_parts, way_out

    if missing := missing_parts():
        return f"none for `tune --target vulkan`, {', '.join(missing)} missing; {way_out()}"
    return f"lavapipe for `tune --target vulkan`, {find_lavapipe().driver}"


def replay_kernels(arguments: Arguments) -> None:
    """`replay` of a folder that `tune --target` wrote: kernels are made again and verified; exit 1 if one is wrong."""
    given = [name for name in ("emit", "retune", "store", "output", "payload", "emulate") if arguments[name]]
    if given:
        raise typer.BadParameter(f"kernels for a GPU are made again and verified, no more; drop --{given[0]}")
    replays = replayed(arguments["bundle"])
    tell_replays(replays, [replay.sentence for replay in replays], as_json=arguments["as_json"])
    if any(replay.outcome != "ok" for replay in replays):
        raise typer.Exit(1)


def regress_kernels(arguments: Arguments) -> None:
    """`regress` of such folders: exit 1 if a kernel is wrong, or takes more cycles by the model than recorded."""
    folders = arguments["bundles"]
    given = [name for name in ("update", "history", "output", "junit_file") if arguments[name]]
    if given or not all(map(is_kernel_folder, folders)):
        what = f"--{given[0].removesuffix('_file')}" if given else "other bundles"
        raise typer.BadParameter(f"kernels for a GPU are verified again alone, nothing is measured; drop {what}")
    replays = [replay for folder in folders for replay in replayed(folder)]
    tell_replays(replays, [f"{each.verdict:<7} {each.sentence}" for each in replays], as_json=arguments["as_json"])
    if any(replay.verdict != "ok" for replay in replays):
        raise typer.Exit(1)


def replayed(folder: Path) -> "list[KernelReplay]":
    """What becomes of the kernels of a folder."""
    from autotune.contrib.gpu.folder import read_folder, replay_folder
    from autotune.contrib.gpu.vulkan import find_lavapipe
    from autotune.core.progress import ProgressLine
    from autotune.worker.isolation.limits import MODEL_SECONDS
    from autotune.worker.worker import Worker

    with ProgressLine(str(folder)), Worker(MODEL_SECONDS) as worker:
        return replay_folder(read_folder(folder), worker, find_lavapipe())


def tell_replays(replays: "list[KernelReplay]", sentences: list[str], *, as_json: bool) -> None:
    """Print what became of kernels."""
    from dataclasses import asdict

    from autotune.cli.layout import show_sentence
    from autotune.reports.format import out

    if as_json:
        typer.echo(json.dumps([asdict(replay) | {"verdict": replay.verdict} for replay in replays]))
        return
    for sentence in sentences:
        show_sentence(out(), sentence)


def emit_kernels(arguments: Arguments) -> None:
    """`emit` of such a folder: its kernels and a C header with what a host must know."""
    from autotune.contrib.gpu.folder import read_folder
    from autotune.contrib.gpu.header import emit_folder

    if len(arguments["bundles"]) > 1 or arguments["target"] or arguments["weights"] or arguments["payload"]:
        raise typer.BadParameter("kernels for a GPU are emitted as they are, one folder at a time; drop the rest")
    for path in emit_folder(read_folder(arguments["bundles"][0]), arguments["output"]):
        typer.echo(path)


def takes_kernels(parameter: str) -> Callable[[Arguments], bool]:
    """Whether what a verb is given is a folder that `tune --target` wrote, or several of which one is.

    Args:
        parameter: Parameter of the verb that names what it takes.
    """

    def takes(arguments: Arguments) -> bool:
        given = arguments[parameter]
        return any(
            is_kernel_folder(Path(each)) for each in (given if isinstance(given, list) else filter(None, (given,)))
        )

    return takes


REPLAY = VerbOption("replay", (), takes_kernels("bundle"), replay_kernels)
REGRESS = VerbOption("regress", (), takes_kernels("bundles"), regress_kernels)
EMIT = VerbOption("emit", (), takes_kernels("bundles"), emit_kernels)
DEVICES = Listing(summaries)
FACT = MachineFact(describe_lavapipe)
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
