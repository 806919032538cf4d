"""Times that cannot be: a program that says it does its operations faster than the processor does any.

A kernel that remembers its inputs, or a process that was taken over, can report any time. What is certain is the rate
of the machine's fused multiply-adds, measured now and by a program of ours. A program above it by `MOST_SHARE` is timed
once more beside the roof, measured anew, before that is said: on a busy machine a roof is easily too low.

Honest programs that do less than their payload counts are left room: where rules rewrote it, nothing is known; code of
a back end or Winograd's convolutions may do with a quarter, instructions on narrow numbers do sixteen at once for one.
"""

from dataclasses import dataclass
from statistics import median

from autotune.bundles.timing import expected_seconds, time_bundle
from autotune.core.errors import MachineError
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine
from autotune.store.bundle import BundleFiles
from autotune.store.records import ProcessTimes
from autotune.worker.bench.roofs import reference_flops
from autotune.worker.worker import Worker

MOST_SHARE = 1.1  # of the roof: what is above it is no error of measuring
QUARTERED, NARROWED = 4.0, 16.0
WIDE = ("f32", "f64")


@dataclass(frozen=True)
class LeastTime:
    """What a program must take at least.

    Attributes:
        flops: Operations of a call that no program for it can leave out; 0 where none is known.
        roof: Operations a second of the machine, at best.
    """

    flops: float
    roof: float

    def share(self, session: ProcessTimes) -> float:
        """Share of the roof that a process reports."""
        return self.flops / median(session.best_seconds) / self.roof


def certain_flops(bundle: BundleFiles) -> float:
    """Operations of a call that no program for a bundle's payload can leave out, in those of the FMA roof."""
    manifest, texts = bundle.manifest, bundle.texts
    if manifest.rules is not None:
        return 0.0
    flops = max(manifest.flops, bundle.payload.flops)  # the latter is ours where the payload is known here
    narrow = manifest.budget is not None or any(a.dtype not in WIDE for a in bundle.payload.arguments)
    if narrow:
        return flops / NARROWED
    quarters = manifest.kernels or any("winograd" in text for text in texts.values())
    return flops / QUARTERED if quarters else flops


def best_rate(machine: Machine, session: ProcessTimes) -> float:
    """Operations a second of the FMA kernel beside a program at its best; 0 where it was not run."""
    return reference_flops(machine) / min(session.reference_seconds) if session.reference_seconds else 0.0


def why_impossible(bundle: BundleFiles, machine: Machine, session: ProcessTimes, effort: Effort) -> str:
    """Why a time cannot be, in a sentence; empty where it can.

    Args:
        bundle: The bundle.
        machine: Host that it is timed on.
        session: Times of its program.
        effort: Number of samples and seconds to time it with once more.
    """
    flops, rate = certain_flops(bundle), best_rate(machine, session)
    if not flops or not rate or LeastTime(flops, rate).share(session) <= MOST_SHARE:
        return ""
    try:
        with Worker(expected_seconds(bundle), threads=machine.threads) as worker:
            roof = max(rate, worker.roofs(machine).flops)
            again = time_bundle(bundle, machine, worker, effort).session
    except MachineError:
        return ""
    if again is None:
        return ""
    least = LeastTime(flops, max(roof, best_rate(machine, again)))
    share = min(least.share(session), least.share(again))
    if share <= MOST_SHARE:
        return ""
    at_roof = f"as its operations do at {least.roof / 1e9:.1f} GFLOP/s"
    says = f"it says {1e6 * median(again.best_seconds):.3g}"
    return f"a call must take {1e6 * flops / least.roof:.3g} us at least, {at_roof}, {says}: such a time cannot be"
