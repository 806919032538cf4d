"""User interface to the tasks of a payload: bound to a machine, with the families that cover them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.core.errors import OptionError, ScheduleError
from autotune.core.host.machine import Machine, this_machine
from autotune.core.html import html_table
from autotune.core.options import MOST_COUNT, check_whole
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.scripts.assembly import Step, assemble, write_step
from autotune.core.space import Config, Space, Value
from autotune.core.task import Task
from autotune.registry import families, load_writer
from autotune.worker.loading.reading import ScriptFile, open_payload, partition


@dataclass(frozen=True)
class TransformScript:
    """A user's transform script.

    Attributes:
        text: Transform ops on ``%op``, the handle to the task's op, one a line; or a whole module with a named sequence
            ``@__transform_main``, which must also lower the result to loops and vectors on buffers.
        panel: Columns of the panels that a constant B is packed into before any call; 0 for no packing.
    """

    text: str
    panel: int = 0

    @property
    def file(self) -> ScriptFile:
        """Script as a file for `tune`: ops on ``%op`` become a named sequence over one op."""
        if "transform.named_sequence" in self.text:
            return ScriptFile("script", self.text)
        head = "transform.named_sequence @schedule(%op: !transform.any_op {transform.consumed}) {"
        return ScriptFile(
            "script",
            f"module attributes {{transform.with_named_sequence}} {{ {head}\n{self.text}\ntransform.yield }} }}\n",
        )


@dataclass(frozen=True)
class TaskFamily:
    """A family of schedules, bound to a task and a machine.

    Attributes:
        family: Family that generates the scripts.
        task: Task that the scripts are for.
        machine: Host that the scripts are generated for.
    """

    family: Family
    task: Task
    machine: Machine

    def __repr__(self) -> str:
        return f"<TaskFamily {self.name} of {self.task.tag}>"

    def _repr_html_(self) -> str:
        default = self.default()
        rows = ((knob.name, default[knob.name], ", ".join(map(str, knob.values))) for knob in self.space.knobs)
        return html_table(f"family {self.name} of {self.task.tag}", ("knob", "default", "values"), rows)

    @property
    def name(self) -> str:
        """Name of the family for users and records."""
        return self.family.name

    @property
    def space(self) -> Space:
        """Search space: knobs, their values, and the constraints between them."""
        return self.family.space(self.task, self.machine)

    def default(self, **knobs: Value) -> Config:
        """Return the default config, with some knobs overridden."""
        return {**self.family.default(self.task, self.machine), **knobs}

    def script(self, config: Mapping[str, Value]) -> str:
        """Return the whole transform script of a config; knobs that it lacks have their default values.

        Raises:
            SpaceError: A knob or value is not of the space, or a constraint between knobs is violated.
        """
        return assemble([self.step(config)])

    def open_script(self, **knobs: Value) -> str:
        """Return the parametric script of the default config, to be edited and passed to `tune` as ``schedule``.

        Args:
            **knobs: Knobs to override; knobs that select between ops are fixed, not open.

        Raises:
            SpaceError: A knob or value is not of the space.
            ScheduleError: No writer of parametric scripts is installed.
        """
        config = self.default(**knobs)
        self.space.check(config)
        return load_writer()(self.family, self.task, self.machine, config)

    def step(self, config: Mapping[str, Value]) -> Step:
        """Return the task's step of a script, for a config as in `script`."""
        whole = self.default(**config)
        self.space.check(whole)
        return write_step(self.task, self.family, whole, self.machine, alone=True)


@dataclass(frozen=True)
class TunableTask:
    """One distinct op or fusion group of a payload that can be tuned alone.

    Attributes:
        task: Task as extracted by the compiler.
        machine: Host that it is tuned for.
    """

    task: Task
    machine: Machine = field(default_factory=this_machine)

    def __repr__(self) -> str:
        name = self.task.name
        return f"<TunableTask {name}: {self.task.count} a call, families {', '.join(f.name for f in self.families)}>"

    def _repr_html_(self) -> str:
        rows = [
            ("task", self.task.name),
            ("tag", self.tag),
            ("executions a call", self.count),
            ("operations", f"{self.task.payload.flops:.4g}"),
            ("families", ", ".join(family.name for family in self.families)),
        ]
        return html_table("task", (), rows)

    @property
    def tag(self) -> str:
        """Key of the task in stores and bundles."""
        return self.task.tag

    @property
    def count(self) -> int:
        """Number of times one call of the payload executes it."""
        return self.task.count

    @property
    def payload(self) -> Payload:
        """Task as a payload of its own."""
        return self.task.payload

    @property
    def families(self) -> tuple[TaskFamily, ...]:
        """Families that cover it; `tune` searches the first one."""
        return tuple(TaskFamily(f, self.task, self.machine) for f in families() if f.covers(self.task))

    def family(self, name: str | None = None) -> TaskFamily:
        """Return the family that `tune` searches, or the one called `name`.

        Raises:
            ScheduleError: No family, or not the named one, covers the task.
        """
        for family in self.families:
            if name in (None, family.name):
                return family
        have = ", ".join(family.name for family in self.families) or "none"
        raise ScheduleError(f"family must be one that covers {self.tag}: {have}; got {name!r}")


def payload(spec: str | Path | Payload, **parameters: object) -> Payload:
    """Return the payload of a spec.

    Args:
        spec: Registered name with parameters, ``matmul,m=512,n=512,k=512``; path to an ``.mlir`` file; or a payload,
            which is returned as it is.
        **parameters: Further parameters of the spec, ``m=512``.

    Raises:
        PayloadError: There is no such payload, or it has no such parameter.

    Example:
        >>> payload("matmul", m=8, n=16, k=32).name
        'matmul,m=8,n=16,k=32'
    """
    if isinstance(spec, Payload):
        return spec
    return open_payload(",".join([str(spec), *(f"{name}={value}" for name, value in parameters.items())]))


def tasks(of: str | Path | Payload) -> tuple[TunableTask, ...]:
    """Return the distinct tunable tasks of a payload, in the order of their first execution.

    Raises:
        PayloadError: There is no such payload.
        CompileError: The payload's text does not parse.

    Example:
        >>> [task.count for task in tasks("softmax,rows=16,cols=32")]
        [1]
    """
    return tuple(TunableTask(task) for task in partition(payload(of)).tasks)


def script(text: str, *, panel: int = 0) -> TransformScript:
    """Return a user's transform script, for `measure`; see `TransformScript`.

    Raises:
        OptionError: The text is no string, or the panel is no number of columns.
    """
    if not isinstance(text, str):
        raise OptionError(f"text of a script must be a str, got {type(text).__name__}; decode it")
    check_whole("panel", panel, 0, MOST_COUNT)
    return TransformScript(text, panel)
