"""Consistency checks of a manifest: derived values must match the recorded ones, such as speed-ups and samples."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from math import isclose, prod

import psutil

from autotune.core.errors import BundleError
from autotune.core.host.machine import Roofs
from autotune.core.payload import DTYPES, REFERENCE, WRITTEN
from autotune.core.plugs.external_kernel import kernel_files
from autotune.core.stats import Interval
from autotune.store.manifest import Manifest
from autotune.store.records import BudgetRecord
from autotune.store.sessions import seen_speedup, speedup_of


def check_manifest(manifest: Manifest, where: str) -> None:
    """Refuse a manifest that contradicts itself.

    Raises:
        BundleError: The manifest violates a constraint; the error names the first one.
    """
    for broken in broken_constraints(manifest):
        raise BundleError(f"{where} must be as it was recorded: {broken}; restore it")


def broken_constraints(manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for every constraint that a manifest violates, with the offending value."""
    if manifest.fingerprint != manifest.machine.fingerprint:
        yield f"fingerprint must be that of its machine, {manifest.machine.fingerprint}, got {manifest.fingerprint}"
    for name in missing_roofs(manifest):
        yield f"roofs must have {name}, got {', '.join(manifest.roofs) or 'none'}"
    yield from broken_constraints_of_arguments(manifest)
    yield from broken_constraints_of_files(manifest)
    for tag, task in manifest.tasks.items():
        for name, value in (task.config or {}).items():
            allowed = task.knobs.get(name, ())
            if not any(type(value) is type(each) and value == each for each in allowed):
                yield f"tasks.{tag}.config.{name} must be one of its knob's values {list(allowed)}, got {value!r}"
        if task.config is not None and task.config.keys() != task.knobs.keys():
            yield f"tasks.{tag}.config must set every knob, got {', '.join(task.config)}"
    yield from broken_constraints_of_samples(manifest)


def missing_roofs(manifest: Manifest) -> list[str]:
    """Return the names of mandatory roofs that a manifest lacks."""
    return [rate.name for rate in fields(Roofs) if rate.default is MISSING and rate.name not in manifest.roofs]


def broken_constraints_of_arguments(manifest: Manifest) -> Iterator[str]:
    """Yield violated constraints of the arguments, and of the numerics, budget and weights that refer to them."""
    names = [argument.name for argument in manifest.arguments]
    if len(set(names)) != len(names):
        yield f"names of arguments must differ, got {', '.join(names)}"
    for argument in manifest.arguments:
        if argument.dtype not in DTYPES:
            yield f"dtype of argument {argument.name} must be one of {', '.join(DTYPES)}, got {argument.dtype!r}"
            return
        if not argument.low < argument.high:
            yield f"low of argument {argument.name} must be below high, got {argument.low} and {argument.high}"
    total = sum(prod(a.shape) * DTYPES[a.dtype].itemsize for a in manifest.arguments)
    if total > psutil.virtual_memory().total:
        yield f"arguments must fit this machine's memory, they take {total / 2**30:.0f} GiB"
    yield from broken_constraints_of_numerics(manifest)
    if manifest.budget is not None:
        yield from broken_constraints_of_budget(manifest.budget)
    for weight in manifest.weights:
        *lead, k, n = weight.shape
        if weight.stored_shape != (*lead, -(-n // weight.columns), k, weight.columns):
            yield f"stored_shape of weight {weight.argument} must follow from its shape, got {weight.stored_shape}"
        if weight.argument not in names:
            yield f"weights must be made from arguments, got {weight.argument!r}"


def broken_constraints_of_numerics(manifest: Manifest) -> Iterator[str]:
    """Yield violated constraints of numerics: every output has errors, and they are within their tolerances."""
    outputs = [argument.name for argument in manifest.arguments if argument.role in WRITTEN]
    if sorted(manifest.numerics.outputs) != sorted(outputs):
        yield f"numerics must be of the outputs {', '.join(outputs)}, got {', '.join(manifest.numerics.outputs)}"
    for name, output in manifest.numerics.outputs.items():
        if output.max_error > output.tolerance:
            yield f"max_error of {name} must be within its tolerance {output.tolerance:g}, got {output.max_error:g}"
    if manifest.numerics.unproved and manifest.numerics.oracle == REFERENCE:
        yield "numerics.unproved must be false where the oracle is a reference, got true"


def broken_constraints_of_budget(budget: BudgetRecord) -> Iterator[str]:
    """Yield violated constraints of the error budget: the measured errors are within the allowed ones."""
    if budget.spent > budget.error:
        yield f"budget.spent must be within {budget.error:g}, got {budget.spent:g}"
    if budget.agrees < budget.agreement:
        yield f"budget.agrees must be at least {budget.agreement:g}, got {budget.agrees:g}"


def broken_constraints_of_files(manifest: Manifest) -> Iterator[str]:
    """Yield violated constraints of the list of files, and of the tasks that other fields refer to."""
    expected = {"payload.mlir", "tagged.mlir", "schedule.mlir", *(f"tasks/{tag}.mlir" for tag in manifest.tasks)}
    expected |= {f"schedules/{tag}.mlir" for tag, task in manifest.tasks.items() if task.config is not None}
    expected |= {"prepared.mlir"} if manifest.panels or manifest.online or manifest.kernels else set()
    expected |= {"open.mlir"} if manifest.script is not None else set()
    expected |= {"rules.mlir"} if manifest.rules is not None else set()
    expected |= {name for tag in manifest.kernels for name in kernel_files(tag)}
    for name in sorted(expected ^ set(manifest.sha256)):
        yield f"sha256 must list exactly its files, {name} is {'missing' if name in expected else 'not one of them'}"
    spent = tuple(manifest.budget.tasks) if manifest.budget is not None else ()
    named = (("panels", tuple(manifest.panels)), ("online", manifest.online), ("kernels", tuple(manifest.kernels)))
    for key, tags in (*named, ("budget", spent)):
        for tag in tags:
            if tag not in manifest.tasks:
                yield f"{key} must be of its tasks, got {tag!r}"
    if not {"transformed", "lowered"} <= manifest.ir_sha256.keys():
        yield f"ir_sha256 must hold transformed and lowered, got {', '.join(manifest.ir_sha256) or 'nothing'}"


def broken_constraints_of_samples(manifest: Manifest) -> Iterator[str]:
    """Yield violated constraints of samples: equal counts per round, and a speed-up that follows from them."""
    for number, session in enumerate(manifest.samples):
        counts = [len(session.best_seconds), len(session.baseline_seconds), len(session.reference_seconds)]
        if any(count not in (0, counts[0]) for count in counts):
            yield f"samples.{number} must hold equally many of each, got {counts}"
            return
    error, claimed = manifest.baseline.part_error, manifest.speedup
    if error and manifest.baseline.part == 1:
        yield f"part_error must be 0 of a baseline that is timed whole, got {error:g}"
    if manifest.baseline.why_not and claimed is not None:
        yield f"a baseline that could not be timed gives no speedup, got {claimed.estimate:.4g}"
    derived, seen = speedup_of(manifest.samples, error), seen_speedup(manifest.samples)
    # Older bundles record the interval of few samples without the widening of `speedup_of`.
    rules = [derived, seen.widened(error)] if derived is not None and seen is not None else []
    if (derived is None) != (claimed is None):
        yield f"speedup must follow from the samples, which give {derived}, got {claimed}"
    elif derived is not None and claimed is not None and not any(is_close(rule, claimed) for rule in rules):
        yield f"speedup must follow from the samples, {derived.estimate:.4g}, got {claimed.estimate:.4g}"


def is_close(a: Interval, b: Interval) -> bool:
    """Return whether two intervals are equal up to rounding."""
    return all(isclose(x, y, rel_tol=1e-6) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))
