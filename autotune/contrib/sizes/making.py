"""Import of a model with open dimensions into a folder: prove, measure, choose sizes, import them, and verify.

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
from autotune.core.host.files import why_refused
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
TRIED = 24  # sizes that the model is verified at, corners included
TOLERANCE = 1e-3  # difference of two f32 programs, relative to the largest value


def check_folder(folder: Path) -> None:
    """Check that a folder may be overwritten, before any work is done.

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
        bounds: Bounds of all open dimensions.
        folder: Folder to write; an earlier import in it is replaced.
        most: Most sizes to compile.
        listener: Notified of stages.

    Raises:
        PayloadError: The model cannot be imported, needs more sizes, or its results differ from its own runtime's.
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
        raise PayloadError(
            f"a folder must be writable, {folder} is not: {why_refused(error)}; pass --output"
        ) from error
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
    chosen_sizes = choose_sizes(folder, dims, names, costs, most, listener)
    unknown = [size for size in chosen_sizes if name_of(size) not in seconds or read_narrow(size_folder(folder, size))]
    seconds |= measured(path, folder, unknown, listener)
    for directory in (folder / SIZES).iterdir():
        if directory.name not in map(name_of, chosen_sizes):
            shutil.rmtree(directory)
    listener.stage("shortening loops")
    grains = grains_of(folder, dims, names, chosen_sizes)
    listener.stage("sharing weights")
    source = read_description(size_folder(folder, chosen_sizes[0]))
    share_weights(folder, chosen_sizes)
    pairs = zip(chosen_sizes, grains, strict=True)
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
    """Return the ranges of integer inputs, by their names in the model."""
    described = read_description(size_folder(folder, sizes)).arguments
    ranges = {}
    for argument, each in zip(payload.arguments, described, strict=True):
        if argument.role == "input":
            ranges[each.name] = (int(each.low), int(each.high)) if argument.dtype.startswith("i") else TRUTH
    return ranges


def names_of(model: ImportedModel) -> dict[str, str]:
    """Map the model's names of arguments to the payload's."""
    return dict(zip([each.name for each in model.arguments], argument_names(model.arguments), strict=True))


def measured(path: Path, folder: Path, sizes: Sequence[Sizes], listener: Listener) -> dict[str, float]:
    """Return the seconds of a call at each size with default schedules, by name; compiled, verified and timed isolated.

    Raises:
        PayloadError: A size does not compile, or its results are wrong.
    """
    seconds = {}
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
            seconds[name_of(each)] = float(np.median(result.samples.seconds))
    return seconds


@dataclass(frozen=True)
class LoopSteps:
    """Steps of a compiled size's loops along the open dimension.

    Attributes:
        narrow: Knobs whose values are narrower than the defaults.
        grain: Divisor of the smaller sizes that the program serves as well; 0 if it serves none.
        slower: Time of a call relative to default schedules.
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
    """Return the sizes to compile; sizes that all requests need get narrow steps where these make requests cheaper.

    Args:
        folder: Folder of the model, with the sizes that all requests need already imported.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it.
        costs: Seconds of a call at any size.
        most: Maximum number of sizes.
        listener: Notified of stages.
    """
    whole = [size for size in needed(dims, most) if size_folder(folder, size).is_dir()]
    alternatives = [possible_steps(folder, dims, axes, size, listener) for size in whole]
    listener.stage("choosing sizes")

    def chosen_by(steps: Sequence[LoopSteps]) -> ChosenSizes:
        served = [
            (each, loop_steps.slower * costs.of(each))
            for size, loop_steps in zip(whole, steps, strict=True)
            for each in (*shorter_sizes(dims, size, loop_steps.grain), size)
        ]
        return choose(dims, costs, most, served)

    steps = [plain for plain, *_ in alternatives]
    best = chosen_by(steps)
    for number, (_, *narrow_steps) in enumerate(alternatives):
        for candidate in narrow_steps:
            trial = [*steps[:number], candidate, *steps[number + 1 :]]
            if (choice := chosen_by(trial)).cost < best.cost:
                steps, best = trial, choice
                write_narrow(size_folder(folder, whole[number]), candidate.narrow)
    return list(best.sizes)


def possible_steps(
    folder: Path, dims: Sequence[Dim], axes: Mapping[str, Mapping[str, int]], size: Sizes, listener: Listener
) -> list[LoopSteps]:
    """Return the possible steps of a size's loops: those of default schedules, then narrow ones if there are any.

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
            grain = worker.call(grain_of, OpenProgram.of(payload, candidate, dim, axes, size[dim.name]))
            return grain if isinstance(grain, int) else 0

        plain = LoopSteps({}, grain_with({}))
        narrow, grain = find_narrow(parts, machine, plain.grain, grain_with)
        if not narrow:
            return [plain]
        candidates = tuple(narrow_candidate(parts, machine, knobs) for knobs in ({}, narrow))
        results = [each.samples for each in worker.evaluate(Job(payload, candidates, machine))]
    if None in results:  # one is wrong, or takes too long
        return [plain]
    default_seconds, narrow_seconds = (float(np.median(each.seconds)) for each in results if each is not None)
    return [plain, LoopSteps(narrow, grain, narrow_seconds / default_seconds)]


def grains_of(
    folder: Path,
    dims: Sequence[Dim],
    axes: Mapping[str, Mapping[str, int]],
    sizes: Sequence[Sizes],
    machine: Machine | None = None,
) -> list[int]:
    """Return the grain of each size's program, the divisor of smaller sizes that it serves as well; 0 if none.

    Args:
        folder: Folder of the model.
        dims: The open dimensions.
        axes: Axis of each open dimension in each input that has it.
        sizes: The compiled sizes.
        machine: Machine of default schedules; `None` for the recorded candidates.
    """
    dim = open_dim(dims)
    if dim is None:
        return [0] * len(sizes)
    grains = []
    with Worker(MODEL_SECONDS) as worker:
        for each in sizes:
            payload = open_payload(size_folder(folder, each))
            program = OpenProgram.of(
                payload, candidate_of(folder, each, payload, machine)[0], dim, axes, each[dim.name]
            )
            grain = worker.call(grain_of, program)
            grains.append(grain if isinstance(grain, int) else 0)
    return grains


def share_weights(folder: Path, sizes: Sequence[Sizes]) -> None:
    """Write the weights that are equal in all sizes to one file, which each refers to by hash; others stay separate."""
    directories = [size_folder(folder, each) for each in sizes]
    files = [
        dict(map_tensors(directory / WEIGHTS)) if (directory / WEIGHTS).is_file() else {} for directory in directories
    ]
    shared = {name: array for name, array in files[0].items() if all(is_same(array, each.get(name)) for each in files)}
    if shared:
        write_tensors(folder / WEIGHTS, shared)
    for directory, tensors in zip(directories, files, strict=True):
        own = {name: np.array(array) for name, array in tensors.items() if name not in shared}
        (directory / WEIGHTS).unlink(missing_ok=True)
        if own:
            write_tensors(directory / WEIGHTS, own)
        description = read_description(directory)
        (directory / description.file).unlink(missing_ok=True)  # the original model file serves every size
        if shared:
            refer(directory, description, WeightsElsewhere(f"../../{WEIGHTS}", hash_file(folder / WEIGHTS)))


def is_same(array: Array, other: Array | None) -> bool:
    """Return whether two tensors are identical."""
    if other is None or (array.dtype, array.shape) != (other.dtype, other.shape):
        return False
    return bool(np.array_equal(array.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)))


def refer(path: Path, description: ImportedModel, weights: WeightsElsewhere) -> None:
    """Add a reference to another file of weights to a folder's description."""
    text = json.dumps(replace(description, weights=(*description.weights, weights)).to_json(), indent=1)
    (path / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def verify(folder: Path, prover: Prover) -> float:
    """Return the largest difference from the model's own runtime, relative to the largest value of a result.

    The compiled sizes run in an isolated process.

    Raises:
        PayloadError: The results of a request differ, or the process fails.
    """
    described = read_sized(folder)
    sizes = [each.sizes for each in described.sizes]
    prepared = tuple(prepare(folder, described, number) for number in range(len(sizes)))
    names = names_of(read_description(size_folder(folder, sizes[0])))
    requests = list(random_requests(described.dims, TRIED, 1))
    distributions = cycle(reals for reals in prover.reals if reals.tolerance < TOLERANCE)
    inputs = [prover.draw(each, reals) for each, reals in zip(requests, distributions, strict=False)]
    expected = [tuple(prover.model.run(each)) for each in inputs]
    by_argument = tuple({names[name]: array for name, array in each.items()} for each in inputs)
    with Worker(MODEL_SECONDS) as worker:
        errors = worker.call(differences, SizeTrial(described, prepared, by_argument, tuple(expected)), MODEL_SECONDS)
    if isinstance(errors, Evaluation):
        raise PayloadError(
            f"compiled sizes must run, they were {errors.outcome}: {errors.diagnostic}; narrow the bounds"
        )
    worst = int(np.argmax(errors))
    if not errors[worst] <= TOLERANCE:
        raise PayloadError(
            f"results must be those of the model's own runtime, at {name_of(requests[worst])} they differ by "
            f"{errors[worst]:.2g} of the largest value; narrow the bounds"
        )
    return errors[worst]


@dataclass(frozen=True, eq=False)
class SizeTrial:
    """Requests to be run in the isolated process.

    Attributes:
        model: Description of the model.
        prepared: Compiled sizes of the model.
        requests: Inputs of each request, by argument name.
        wanted: Expected results of each request.
    """

    model: SizedModel
    prepared: tuple[SizeProgram, ...]
    requests: tuple[Mapping[str, Array], ...]
    wanted: tuple[tuple[Array, ...], ...]


def differences(trial: SizeTrial) -> list[float]:
    """Return the largest difference of each request's results, relative to the largest expected value."""
    function = AnySize(trial.model, trial.prepared.__getitem__)
    return [
        max(map(difference, results_of(function(**request)), wanted))
        for request, wanted in zip(trial.requests, trial.wanted, strict=True)
    ]


def difference(result: Array, want: Array) -> float:
    """Return the largest difference relative to the largest value; infinite if shapes or non-finite elements differ."""
    if result.shape != want.shape or not np.array_equal(np.isfinite(result), np.isfinite(want)):
        return inf
    finite = np.isfinite(want)
    distance = np.abs(result[finite].astype(np.float64) - want[finite].astype(np.float64))
    largest = np.abs(want[finite].astype(np.float64)).max(initial=0.0)
    return float(distance.max(initial=0.0) / (largest or 1.0))
