"""Public interface for plug-ins. The packages of `autotune.contrib` use it, too.

A plug-in is a Python package that registers entry points. The entry points of a group have one type:

| group | what an entry point is |
|---|---|
| ``autotune.payloads`` | `PayloadFactory`: a payload of parameters |
| ``autotune.importers`` | `Importer` of files with the entry point's name as suffix |
| ``autotune.dialects`` | `Dialect` of payload files |
| ``autotune.readers`` | function, called ``dialect``, that reads payload files in a `Dialect` |
| ``autotune.schedules`` | `Family` of schedules |
| ``autotune.schedule_aliases`` | a `Family` of ``autotune.schedules``, by a name that it had |
| ``autotune.samplers`` | `autotune.tuning.samplers.sampler.SamplerKind`, chosen by ``--sampler`` |
| ``autotune.transfer`` | function, called ``spaces``, from folders to transfer data for samplers of a family |
| ``autotune.rewrites`` | `autotune.compiler.lowering.rewrites.Rewrite`, which scripts ask for |
| ``autotune.rewriters`` | `Rewriter` of payloads, called ``rules`` |
| ``autotune.precisions`` | `Family` that rounds what it multiplies |
| ``autotune.weight_forms`` | `PluggedForm`: how a weight is stored before any call, as a family of that name wants |
| ``autotune.any_size`` | `AnySizeReader`, called ``folders``: models of any size for `emit` |
| ``autotune.servers`` | `autotune.store.server.Servers`, called ``postgres``: stores on a database server |
| ``autotune.rivals`` | `Rivals`, called ``code``: code of others, which competes with schedules |
| ``autotune.techniques`` | tuple of `Technique`, which `explain` ablates |
| ``autotune.baselines`` | `Baseline`, a pipeline to race against |
| ``autotune.comparators`` | `Comparator`, a library that `compare` times beside |
| ``autotune.verbs`` | `Verb` of the command line |
| ``autotune.options`` | `VerbOption`, which may run instead of its verb |
| ``autotune.stages`` | `ShownStage` of `show` |
| ``autotune.payload_stages`` | `PayloadStage` of `show` |
| ``autotune.sections`` | `PageSection` of `report`, with an option of its name |
| ``autotune.lists`` | `Listing` for `list` |
| ``autotune.facts`` | `MachineFact` for `doctor`, by its label |
| ``autotune.modules`` | module that is ``autotune.NAME`` then |
| ``autotune.writers`` | function that writes a family's schedule of a task as a script |

A feature may open groups of its own, as cost functions (``autotune.costs``) and back ends (``autotune.backends``) do.
"""

from collections.abc import Callable

from autotune.core.ops.dialect import Dialect
from autotune.core.payload import Argument, Payload
from autotune.core.plugs.any_size import AnySizeReader
from autotune.core.plugs.comparator import Comparator
from autotune.core.plugs.family import Baseline, Family
from autotune.core.plugs.imported import Importer
from autotune.core.plugs.program import ExternalCode, Program, WrittenScript
from autotune.core.plugs.rewriter import Rewriter
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.plugs.rivals import OpenRivals, Rivals
from autotune.core.plugs.verb import (
    LAB,
    Arguments,
    Listing,
    MachineFact,
    PageSection,
    PayloadStage,
    ShownStage,
    Verb,
    VerbOption,
    option,
)
from autotune.core.plugs.weight_form import PluggedForm
from autotune.core.scripts.technique import Technique

# Parameters by name; an attribute `parameters`, defaults by name, is what `autotune list` shows of them.
PayloadFactory = Callable[[dict[str, str]], Payload]

__all__ = [
    "LAB",
    "AnySizeReader",
    "Argument",
    "Arguments",
    "Baseline",
    "Comparator",
    "Dialect",
    "ExternalCode",
    "Family",
    "Importer",
    "Listing",
    "MachineFact",
    "OpenRivals",
    "PageSection",
    "Payload",
    "PayloadFactory",
    "PayloadStage",
    "PluggedForm",
    "Program",
    "Rewriter",
    "Rewrites",
    "Rivals",
    "ShownStage",
    "Technique",
    "Verb",
    "VerbOption",
    "WrittenScript",
    "option",
]
