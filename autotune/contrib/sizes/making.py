"""From a model with open dimensions to its folder: proved, measured, chosen, imported at few sizes, and verified.

model --Prover--> what may be padded --import at few sizes, measure--> costs --choose--> sizes --share--> FOLDER
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import inf
from pathlib import Path

import numpy as np

from autotune.bundles.recorded import results_of
from autotune.compiler.tasks.payload_folder import read_description
from autotune.contrib.sizes.bounds import Bounds, Sizes, name_of
from autotune.contrib.sizes.calls import AnySize, candidate_of, prepare
from autotune.contrib.sizes.folder import CompiledSize, SizedModel, read_sized, write_sized
from autotune.contrib.sizes.grains import OpenProgram, grain_of
from autotune.contrib.sizes.narrow_steps import Narrow, find_narrow, narrow_candidate, read_narrow, write_narrow
from autotune.contrib.sizes.open_model import OpenModel, open_model
from autotune.contrib.sizes.paths import SIZES, is_sized, size_folder
from autotune.contrib.sizes.plan import (
    ChosenSizes,
    SizeCosts,
    choose,
    grid_of,
    needed,
    open_dim,
    points_of,
    random_requests,
    shorter_sizes,
)
from autotune.contrib.sizes.proof import TRUTH, Dim, Prover, Range
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine, this_machine
from autotune.core.host.scratch import Scratch
from autotune.core.host.tensor_file import hash_file, map_tensors, write_tensors
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Array, Payload
from autotune.core.plugs.any_size import SizeProgram
from autotune.core.plugs.imported import (
    DESCRIPTION,
    WEIGHTS,
    ImportedModel,
    WeightsElsewhere,
    argument_names,
)
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload, partition
from autotune.worker.worker import Worker

MOST_SIZES = 8
TRIED = 24  # sizes that the whole is verified at, corners included
TOLERANCE = 1e-3  # of the largest value: two programs of f32


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else, before any work is done for it.

    Raises:
        PayloadError: The folder holds something else.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not is_sized(folder)):
        raise PayloadError(f"a model must be imported into a folder of its own, {folder} is in use; pass --output")


def import_sized(
    path: Path, bounds: Sequence[Bounds], folder: Path, *, most: int = MOST_SIZES, listener: Listener = SILENT
) -> SizedModel:
    """Import a model at a few sizes within bounds, into one folder with one copy of the weights.

    Args:
        path: The model, whose open dimensions have names.
        bounds: Bounds of all of them.
        folder: Folder to write; one of an earlier import is replaced.
        most: Most sizes to compile.
        listener: Notified of stages.

    Raises:
        PayloadError: The model cannot be imported, needs more sizes, or does not compute the same as its runtime.
    """
    check_folder(folder)
    model = open_model(path, bounds)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Scratch(f".{folder.name}-importing-", folder.parent) as scratch:
            fresh = scratch.path / folder.name
            fresh.mkdir()
            described = make_sized(path, model, tuple(bounds), fresh, most, listener)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    except OSError as error:
        raise PayloadError(f"a folder must be writable, {folder} is not: {error.strerror}; pass --output") from error
    return described


def make_sized(
    path: Path, model: OpenModel, bounds: tuple[Bounds, ...], folder: Path, most: int, listener: Listener
) -> SizedModel:
    """Write the folder; arguments and errors are those of `import_sized`."""
    largest = {each.name: each.high for each in bounds}
    listener.stage(f"importing {name_of(largest)}, the largest size")
    first = import_size(path, folder, largest)
    listener.stage("proving what may be padded")
    prover = Prover(model, bounds, ranges_of(folder, largest, first))
    named = names_of(read_description(size_folder(folder, largest)))
    proved = map(prover.prove, bounds)
    dims = tuple(replace(dim, masks=tuple(named[name] for name in dim.masks)) for dim in proved)
    needed(dims, most)
    names = {named[each.name]: dict(each.axes) for each in model.inputs if each.axes}
    grid = grid_of(dims)
    seconds = measured(path, folder, points_of(grid), listener)
    costs = SizeCosts(grid, [seconds[name_of(point)] for point in points_of(grid)])
    chosen = choose_sizes(folder, dims, names, costs, most, listener)
    unknown = [size for size in chosen if name_of(size) not in seconds or read_narrow(size_folder(folder, size))]
    seconds |= measured(path, folder, unknown, listener)
    for directory in (folder / SIZES).iterdir():
        if directory.name not in map(name_of, chosen):
            shutil.rmtree(directory)
    listener.stage("shortening loops")
    grains = grains_of(folder, dims, names, chosen)
    listener.stage("sharing weights")
    source = read_description(size_folder(folder, chosen[0]))
    share_weights(folder, chosen)
    pairs = zip(chosen, grains, strict=True)
    sizes = tuple(CompiledSize(size, seconds[name_of(size)], grain) for size, grain in pairs)
    described = SizedModel(path.name, source.sha256, dims, names, sizes)
    write_sized(folder, described)
    listener.stage("verifying at random sizes and all corners")
    described = replace(described, error=verify(folder, prover), tried=TRIED)
    write_sized(folder, described)
    return described


def import_size(path: Path, folder: Path, sizes: Sizes) -> Payload:
    """Import a model at one size.

    Raises:
        PayloadError: The model cannot be imported.
    """
    directory = size_folder(folder, sizes)
    import_model(f"{path},{name_of(sizes)}", directory)
    return open_payload(directory)


def ranges_of(folder: Path, sizes: Sizes, payload: Payload) -> dict[str, Range]:
    """What whole numbers the inputs may hold, by the model's names."""
    described = read_description(size_folder(folder, sizes)).arguments
    found = {}
    for argument, each in zip(payload.arguments, described, strict=True):
        if argument.role == "input":
            found[each.name] = (int(each.low), int(each.high)) if argument.dtype.startswith("i") else TRUTH
    return found


def names_of(model: ImportedModel) -> dict[str, str]:
    """Names of the payload's arguments by the model's names of them."""
    return dict(zip([each.name for each in model.arguments], argument_names(model.arguments), strict=True))


def measured(path: Path, folder: Path, sizes: Sequence[Sizes], listener: Listener) -> dict[str, float]:
    """Seconds of a call at some sizes, by default schedules, each compiled, verified and timed in isolation; by name.

    Raises:
        PayloadError: One does not compile, or is not right.
    """
    found = {}
    with Worker(MODEL_SECONDS) as worker:
        for each in sizes:
            listener.stage(f"measuring {name_of(each)}")
            directory = size_folder(folder, each)
            payload = open_payload(directory) if directory.is_dir() else import_size(path, folder, each)
            (result,) = worker.evaluate(Job(payload, (candidate_of(folder, each, payload)[0],), this_machine()))
            if result.samples is None:
                raise PayloadError(
                    f"{path.name} must compile and be right at {name_of(each)}, it was {result.outcome}: "
                    f"{result.diagnostic}; narrow the bounds"
                )
            found[name_of(each)] = float(np.median(result.samples.seconds))
    return found


@dataclass(frozen=True)
class LoopSteps:
    """Steps of a size's loops along the open dimension.

    Attributes:
        narrow: Knobs by which they are narrower than by default.
        grain: What smaller sizes are multiples of that the program serves as well; 0 where it serves none.
        slower: Seconds of a call over those by default.
    """

    narrow: Narrow
    grain: int
    slower: float = 1.0


def choose_sizes(
    folder: Path,
    dims: Sequence[Dim],
    axes: Mapping[str, Mapping[str, int]],
    costs: SizeCosts,
    most: int,
    listener: Listener,
) -> list[dict[str, int]]:
    """Sizes to compile; those that all requests need take narrow steps where requests are cheaper by it.

    Args:
        folder: Folder of the model, with those sizes imported.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it.
        costs: Seconds at any size.
        most: Most sizes.
        listener: Notified of stages.
    """
    whole = [size for size in needed(dims, most) if size_folder(folder, size).is_dir()]
    ways = [possible_steps(folder, dims, axes, size, listener) for size in whole]
    listener.stage("choosing sizes")

    def chosen_by(steps: Sequence[LoopSteps]) -> ChosenSizes:
        served = [
            (each, way.slower * costs.of(each))
            for size, way in zip(whole, steps, strict=True)
            for each in (*shorter_sizes(dims, size, way.grain), size)
        ]
        return choose(dims, costs, most, served)

    steps = [plain for plain, *_ in ways]
    best = chosen_by(steps)
    for number, (_, *others) in enumerate(ways):
        for way in others:
            tried = [*steps[:number], way, *steps[number + 1 :]]
            if (found := chosen_by(tried)).cost < best.cost:
                steps, best = tried, found
                write_narrow(size_folder(folder, whole[number]), way.narrow)
    return list(best.sizes)


def possible_steps(
    folder: Path, dims: Sequence[Dim], axes: Mapping[str, Mapping[str, int]], size: Sizes, listener: Listener
) -> list[LoopSteps]:
    """Steps that a size's loops may take: those of default schedules, then narrow ones, where there are any.

    Args:
        folder: Folder of the model.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it.
        size: The size.
        listener: Notified of stages.
    """
    dim, machine = open_dim(dims), this_machine()
    if dim is None:
        return [LoopSteps({}, 0)]
    listener.stage(f"looking for narrow steps of {name_of(size)}")
    payload = open_payload(size_folder(folder, size))
    parts = partition(payload)
    with Worker(MODEL_SECONDS) as worker:

        def grain_with(narrow: Narrow) -> int:
            candidate = narrow_candidate(parts, machine, narrow)
            found = worker.call(grain_of, OpenProgram.of(payload, candidate, dim, axes, size[dim.name]))
            return found if isinstance(found, int) else 0

        plain = LoopSteps({}, grain_with({}))
        narrow, grain = find_narrow(parts, machine, plain.grain, grain_with)
        if not narrow:
            return [plain]
        candidates = tuple(narrow_candidate(parts, machine, knobs) for knobs in ({}, narrow))
        results = [each.samples for each in worker.evaluate(Job(payload, candidates, machine))]
    if None in results:  # one is wrong, or takes too long
        return [plain]
    default, narrower = (float(np.median(each.seconds)) for each in results if each is not None)
    return [plain, LoopSteps(narrow, grain, narrower / default)]


def grains_of(
    folder: Path,
    dims: Sequence[Dim],
    axes: Mapping[str, Mapping[str, int]],
    sizes: Sequence[Sizes],
    machine: Machine | None = None,
) -> list[int]:
    """What smaller sizes are multiples of that programs of some sizes serve as well; 0 where one serves none.

    Args:
        folder: Folder of the model.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it.
        sizes: The compiled sizes.
        machine: Machine of default schedules; `None` for what is recorded.
    """
    dim = open_dim(dims)
    if dim is None:
        return [0] * len(sizes)
    found = []
    with Worker(MODEL_SECONDS) as worker:
        for each in sizes:
            payload = open_payload(size_folder(folder, each))
            program = OpenProgram.of(
                payload, candidate_of(folder, each, payload, machine)[0], dim, axes, each[dim.name]
            )
            grain = worker.call(grain_of, program)
            found.append(grain if isinstance(grain, int) else 0)
    return found


def share_weights(folder: Path, sizes: Sequence[Sizes]) -> None:
    """Keep what all sizes hold alike in one file, which each refers to by hash; what differs stays its own."""
    directories = [size_folder(folder, each) for each in sizes]
    files = [
        dict(map_tensors(directory / WEIGHTS)) if (directory / WEIGHTS).is_file() else {} for directory in directories
    ]
    shared = {name: array for name, array in files[0].items() if all(is_same(array, each.get(name)) for each in files)}
    if shared:
        write_tensors(folder / WEIGHTS, shared)
    for directory, held in zip(directories, files, strict=True):
        own = {name: np.array(array) for name, array in held.items() if name not in shared}
        (directory / WEIGHTS).unlink(missing_ok=True)
        if own:
            write_tensors(directory / WEIGHTS, own)
        description = read_description(directory)
        (directory / description.file).unlink(missing_ok=True)  # the user's own file has every size
        if shared:
            refer(directory, description, WeightsElsewhere(f"../../{WEIGHTS}", hash_file(folder / WEIGHTS)))


def is_same(array: Array, other: Array | None) -> bool:
    """Tell whether two tensors hold the same bytes."""
    if other is None or (array.dtype, array.shape) != (other.dtype, other.shape):
        return False
    return bool(np.array_equal(array.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)))


def refer(path: Path, description: ImportedModel, weights: WeightsElsewhere) -> None:
    """Let a folder refer to another file of weights."""
    text = json.dumps(replace(description, weights=(*description.weights, weights)).to_json(), indent=1)
    (path / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def verify(folder: Path, prover: Prover) -> float:
    """Largest difference of the compiled sizes from the model's own runtime, over the largest value of a result.

    The compiled sizes run in an isolated process.

    Raises:
        PayloadError: A request gives another result, or the process fails.
    """
    described = read_sized(folder)
    sizes = [each.sizes for each in described.sizes]
    prepared = tuple(prepare(folder, described, number) for number in range(len(sizes)))
    names = names_of(read_description(size_folder(folder, sizes[0])))
    requests = list(random_requests(described.dims, TRIED, 1))
    kinds = cycle(reals for reals in prover.reals if reals.tolerance < TOLERANCE)
    inputs = [prover.draw(each, reals) for each, reals in zip(requests, kinds, strict=False)]
    wanted = [tuple(prover.model.run(given)) for given in inputs]
    given = tuple({names[name]: array for name, array in each.items()} for each in inputs)
    with Worker(MODEL_SECONDS) as worker:
        found = worker.call(differences, SizeTrial(described, prepared, given, tuple(wanted)), MODEL_SECONDS)
    if isinstance(found, Evaluation):
        raise PayloadError(f"compiled sizes must run, they were {found.outcome}: {found.diagnostic}; narrow the bounds")
    worst = int(np.argmax(found))
    if not found[worst] <= TOLERANCE:
        raise PayloadError(
            f"results must be those of the model's own runtime, at {name_of(requests[worst])} they differ by "
            f"{found[worst]:.2g} of the largest value; narrow the bounds"
        )
    return found[worst]


@dataclass(frozen=True, eq=False)
class SizeTrial:
    """Requests for the isolated process.

    Attributes:
        model: Description of the model.
        prepared: Compiled sizes of the model.
        given: Inputs of each request, by argument.
        wanted: Results of each.
    """

    model: SizedModel
    prepared: tuple[SizeProgram, ...]
    given: tuple[Mapping[str, Array], ...]
    wanted: tuple[tuple[Array, ...], ...]


def differences(trial: SizeTrial) -> list[float]:
    """Largest difference of each request's results, over the largest value that is wanted."""
    function = AnySize(trial.model, trial.prepared.__getitem__)
    return [
        max(map(difference, results_of(function(**given)), wanted))
        for given, wanted in zip(trial.given, trial.wanted, strict=True)
    ]


def difference(found: Array, want: Array) -> float:
    """Largest difference over the largest value; infinite where one is another shape, or no number where one is."""
    if found.shape != want.shape or not np.array_equal(np.isfinite(found), np.isfinite(want)):
        return inf
    known = np.isfinite(want)
    apart = np.abs(found[known].astype(np.float64) - want[known].astype(np.float64))
    largest = np.abs(want[known].astype(np.float64)).max(initial=0.0)
    return float(apart.max(initial=0.0) / (largest or 1.0))
