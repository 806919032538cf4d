"""Self-contained HTML page of a recording: all texts are embedded as JSON, and inserted as text by the script."""

import hashlib
import json
from base64 import b64encode
from importlib.resources import files
from string import Template
from typing import Any

from autotune.contrib.debug.nest_cost import NestCost, cache_of
from autotune.contrib.debug.recording import Change, DebugRecording, ScriptVariant, TransformStep
from autotune.contrib.debug.terminal import summary
from autotune.core.host.machine import this_machine
from autotune.reports.format import size

MOST_LOOPS = 40  # of a nest
PARTS = files("autotune.contrib.debug") / "templates"


def write_page(recording: DebugRecording, other: DebugRecording | None = None) -> str:
    """Return the page of one or two recordings; its policy forbids other scripts and styles, and network access."""
    style, script = ((PARTS / name).read_text(encoding="utf-8") for name in ("debug.css", "debug.js"))
    return Template((PARTS / "debug.html").read_text(encoding="utf-8")).substitute(
        style=style,
        style_hash=digest(style),
        script=script,
        script_hash=digest(script),
        data=as_json(page_data(recording) | ({"other": page_data(other)} if other is not None else {})),
    )


def digest(text: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_json(data: object) -> str:
    """Serialize data to JSON that can be embedded in an HTML element: markup characters are escaped."""
    text = json.dumps(data, separators=(",", ":"))  # ASCII
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(recording: DebugRecording) -> dict[str, Any]:
    """Convert a recording to the data of the page's script."""
    return {
        "payload": recording.payload,
        "source": recording.source,
        "script": recording.script.splitlines(),
        "lines": "\n".join(recording.before.lines),
        "ops": " ".join(op or "-" for op in recording.before.ops),
        "steps": [step_data(step) for step in recording.steps],
        "message": recording.message,
        "order": [nest.op for nest in recording.nests],
        "nests": [nest_data(nest) for nest in recording.nests],
        "variants": [variant_data(variant) for variant in recording.variants],
        "notes": [*recording.notes, *(mark.sentence for mark in recording.marks)],
    }


def step_data(step: TransformStep) -> dict[str, Any]:
    """Convert a step to the data of the page's script."""
    return {
        "op": step.short,
        "full": step.text,
        "line": step.line,
        "path": step.path,
        "changes": [change_data(change) for change in step.changes],
        "handles": [[h.frame, h.name, h.state, int(h.is_param), *h.ops] for h in step.handles if h.name],
        "marks": [[mark.kind, mark.sentence, mark.cause, *mark.ops] for mark in step.marks],
        "origins": step.origins,
        "order": step.order,
        "nests": [nest_data(nest) for nest in step.nests],
    }


def nest_data(nest: NestCost) -> list[object]:
    """Convert a loop nest to the data of the page's script: name, summary, share of the peak, loops."""
    machine = this_machine()
    loops = [
        [each.op, each.kind, each.depth, each.trips, each.runs, size(each.bytes), cache_of(each.bytes, machine)]
        for each in nest.loops[:MOST_LOOPS]
    ]
    return [nest.op, summary(nest), round(nest.share(machine), 3), loops]


def variant_data(variant: ScriptVariant) -> dict[str, Any]:
    """Convert a variant to the data of the page's script."""
    steps = [step_data(step) for step in variant.steps]
    return {
        "label": variant.label,
        "first": variant.first,
        "message": variant.message,
        "same": variant.same,
        "steps": steps,
    }


def change_data(change: Change) -> list[object]:
    """Convert a change to the data of the page's script."""
    ops = " ".join(op or "-" for op in change.ops)
    return [change.first, change.removed, len(change.added), "\n".join(change.added), ops]
