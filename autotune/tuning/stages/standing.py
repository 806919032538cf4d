"""A result that stands: a resume that has nothing left to run need not measure what was measured and recorded."""

from collections import Counter
from collections.abc import Sequence
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
    summary = summary_of(store.summaries(), run.payload.name, folder)
    if summary is None or summary["unsteady"]:
        return None
    outcomes = Counter(trial.outcome for search in searched.searches for trial in search.trials)
    same = (
        summary["trials"] == dict(outcomes)
        and summary["machine"]["fingerprint"] == run.machine.fingerprint
        and summary["noise_floor"] >= least_floor
        and is_unchanged(run, folder, options)
    )
    return replace(TuneResult.from_json(summary), bundle=str(folder)) if same else None


def summary_of(summaries: Sequence[dict[str, Any]], payload: str, folder: Path) -> dict[str, Any] | None:
    """The newest summary of a payload, if it is that of the bundle in a folder; else `None`."""
    mine = [each for each in summaries if each["payload"] == payload]
    try:
        held = digest((folder / MANIFEST_FILE).read_bytes())
    except OSError:  # no bundle
        return None
    return mine[-1] if mine and mine[-1].get(MANIFEST_SHA256) == held else None


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
