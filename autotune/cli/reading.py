"""Loading of the payloads named on the command line."""

from collections.abc import Sequence

from autotune.core.listener import Listener
from autotune.core.payload import Payload
from autotune.worker.loading.reading import open_payload

MODELS = (".onnx", ".pt2", ".gguf")  # model files, whose import takes long


def read_payloads(specs: Sequence[str], line: Listener) -> list[Payload]:
    """Load the payloads that a user names; report the stage to `line`."""
    models = any(spec.partition(",")[0].endswith(MODELS) for spec in specs)
    once = "; a model's file is imported the first time, half a minute for a large one"
    line.stage(f"reading {', '.join(specs)}{once if models else ''}")
    return [open_payload(spec) for spec in specs]
