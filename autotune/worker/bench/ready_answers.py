"""Codecs of the answers of isolated processes, built once by their keeper: each process would need 70 ms for them.

A keeper imports this module before it forks; a tuner does not.
"""

from autotune.core.host.stopwatch import Moment
from autotune.worker.bench.evaluate import evaluate, roofs
from autotune.worker.bench.proof import hash_stages, measure_errors, transform
from autotune.worker.isolation.answers import ErrorRecord, kind_of
from autotune.worker.isolation.typed_json import codec

KINDS = (
    Moment,
    ErrorRecord,
    kind_of(evaluate),
    kind_of(roofs),
    kind_of(transform),
    kind_of(measure_errors),
    kind_of(hash_stages),
)
CODECS = tuple(map(codec, KINDS))
