"""Detection of impossible times: a program that claims a higher rate of operations than the processor's peak.

A kernel that caches results for its inputs, or a compromised process, can report any time. The machine's FMA rate,
measured now by a kernel of ours, is a reliable bound. A program that exceeds it by a factor of `MOST_SHARE` is timed
again together with a newly measured roof before it is reported, since a busy machine's roof is easily underestimated.

Correct programs may execute fewer operations than their payload counts: if rewrite rules were applied, no bound is
known; external code and Winograd convolutions may need only a quarter; dot-product instructions on narrow types execute
up to sixteen operations in place of one.
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

MOST_SHARE = 1.1  # of the roof: more cannot be a measurement error
QUARTERED, NARROWED = 4.0, 16.0
WIDE = ("f32", "f64")


@dataclass(frozen=True)
class LeastTime:
    """Lower bound of a program's time.

    Attributes:
        flops: Lower bound of the operations of a call; 0 if unknown.
        roof: Peak rate of the machine, in operations per second.
    """

    flops: float
    roof: float

    def share(self, session: ProcessTimes) -> float:
        """Return the share of the roof implied by the times of a process."""
        return self.flops / median(session.best_seconds) / self.roof


def certain_flops(bundle: BundleFiles) -> float:
    """Return a lower bound of a call's operations for any program of a bundle's payload, in FMA-roof operations."""
    manifest, texts = bundle.manifest, bundle.texts
    if manifest.rules is not None:
        return 0.0
    flops = max(manifest.flops, bundle.payload.flops)  # the latter is trusted if the payload is known here
    narrow = manifest.budget is not None or any(a.dtype not in WIDE for a in bundle.payload.arguments)
    if narrow:
        return flops / NARROWED
    quarters = manifest.kernels or any("winograd" in text for text in texts.values())
    return flops / QUARTERED if quarters else flops


def best_rate(machine: Machine, session: ProcessTimes) -> float:
    """Return the best rate of the FMA kernel in a session, in operations per second; 0 if it was not run."""
    return reference_flops(machine) / min(session.reference_seconds) if session.reference_seconds else 0.0


def why_impossible(bundle: BundleFiles, machine: Machine, session: ProcessTimes, effort: Effort) -> str:
    """Return a sentence on why a time is impossible; empty if it is possible.

    Args:
        bundle: The bundle.
        machine: Host that it is timed on.
        session: Samples of its program.
        effort: Effort of the repeated measurement.
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
