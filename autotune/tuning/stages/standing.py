"""A result that stands: a resume that has nothing left to run need not measure what was measured and recorded."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from autotune.core.errors import BundleError, OptionError
from autotune.registry import load_baseline
from autotune.store.bundle import TAGGED, digest, read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions, parse_command
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.record import versions
from autotune.tuning.stages.replacing import slower_folder
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.summary import Searched

MANIFEST_SHA256 = "manifest_sha256"  # in a summary: the manifest that the run wrote, which has the hashes of all files
FREE = ("trials", "seconds", "timeout", "jobs", "cold", "anew")  # with the same trials run, no result depends on them


def standing_result(
    run: Run, searched: Searched, store: Store, folder: Path, options: TuneOptions, *, least_floor: float = 0.0
) -> TuneResult | None:
    """What an earlier run recorded, where this one would measure the same again.

    Args:
        run: The run.
        searched: What its search gave.
        store: Store that the search read, with the summaries of earlier runs.
        folder: Folder that the bundle is for.
        options: Options as the bundle's command would record them.
        least_floor: Relative differences below it are ties, as the user's own measurement of noise has it.

    Returns:
        The recorded result; `None` where a trial was run now, or where store, bundle, options, machine or versions are
        not those of the run that recorded it, or where that one's times say nothing.
    """
    if options.anew or searched.ran.evaluated:
        return None
    summaries = [each for each in store.summaries() if each["payload"] == run.payload.name]
    held = folder_of(summaries[-1], folder) if summaries else None
    if held is None or summaries[-1]["unsteady"]:
        return None
    summary = summaries[-1]
    outcomes = Counter(trial.outcome for search in searched.searches for trial in search.trials)
    same = (
        summary["trials"] == dict(outcomes)
        and summary["machine"]["fingerprint"] == run.machine.fingerprint
        and summary["noise_floor"] >= least_floor
        and is_unchanged(run, held, options)
    )
    return replace(TuneResult.from_json(summary), bundle=str(held)) if same else None


def folder_of(summary: dict[str, Any], folder: Path) -> Path | None:
    """The folder that holds the bundle of a summary: the one asked for, or that beside a faster bundle.

    Args:
        summary: Summary of a run.
        folder: Folder that the bundle is for.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return None
    for held in (folder, slower_folder(folder)):
        with suppress(OSError):  # no bundle
            if digest((held / MANIFEST_FILE).read_bytes()) == summary.get(MANIFEST_SHA256):
                return held
    return None


def is_unchanged(run: Run, folder: Path, options: TuneOptions) -> bool:
    """Whether a folder holds a whole bundle of this payload, made by the same options, versions and rules."""
    try:
        bundle = read_bundle(folder, run.payload)
        then = parse_command(bundle.manifest.command)
    except (BundleError, OptionError):  # then it is measured and written anew
        return False
    manifest = bundle.manifest
    return (
        bundle.texts[TAGGED] == run.parts.payload.text
        and manifest.versions == versions()
        and manifest.baseline.pipeline == load_baseline(options.baseline).pipeline
        and replace(then, **{name: getattr(options, name) for name in FREE}) == options
    )
