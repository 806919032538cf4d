"""The whole exception tree.

A failed *call* raises; a failed *candidate* never does: it becomes a `Trial` with an outcome.
Every message states the constraint, then the value, then the way out, on one line.
"""


class AutotuneError(Exception):
    """Base of everything this project raises on purpose; the CLI prints it as one line and exits 2."""


class PluginError(AutotuneError):
    """A plug-in does not load: it is broken, or its package was changed since it was installed."""


class OptionError(AutotuneError, ValueError):
    """An option of a verb is no number, or one out of range; raised before anything is done."""


class PayloadError(AutotuneError):
    """The payload is unknown, has impossible sizes, or is not a module that can be tuned."""


class RefusedModelError(PayloadError):
    """An importer does not know what a model does, and says so each time that it reads it."""


class SpaceError(AutotuneError):
    """A knob, a space or a config contradicts its own definition."""


class ScheduleError(AutotuneError):
    """A schedule cannot be written for this task, or is unknown."""


class RuleError(AutotuneError):
    """Rewrite rules cannot be read, come to no end, or do not leave what they should."""


class CompileError(AutotuneError):
    """The compiler refused a module.

    Attributes:
        stage: Stage of the compilation that failed: ``parse``, ``transform``, ``verify``, ``lower`` or ``jit``.
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage

    def __reduce__(self) -> tuple[type["CompileError"], tuple[str, str]]:
        """Keep both arguments when the error crosses a process boundary."""
        return type(self), (self.stage, str(self))


class KernelError(AutotuneError):
    """A back end could not make a task's code.

    Attributes:
        outcome: Outcome of the trial.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome

    def __reduce__(self) -> tuple[type["KernelError"], tuple[str, str]]:
        """Keep both arguments when the error crosses a process boundary."""
        return type(self), (self.outcome, str(self))


class DuplicateError(AutotuneError):
    """A candidate is a duplicate of an earlier one."""


class StoreError(AutotuneError):
    """The store is locked, damaged, of another format version, or cannot be written."""


class BundleError(AutotuneError):
    """A bundle is incomplete, edited, or of another format version."""


class ProofError(AutotuneError):
    """What was tuned does not hold when it is checked as a replay checks it; the CLI exits 1."""


class ComparatorError(AutotuneError):
    """A library to compare with is unknown, or cannot compute a payload."""


class GenerationError(AutotuneError):
    """A prompt, a token, a position or a way of sampling is impossible; raised before any compiled code runs."""


class MachineError(AutotuneError):
    """This machine lacks something that is needed, with what to install or change."""


class AnswerError(AutotuneError):
    """What an isolated process answered is no data of the type that was to come."""


class TensorError(AutotuneError, ValueError):
    """An operation on tensors is impossible; raised where it is written, with shapes, before anything is compiled."""


class TensorTypeError(TensorError, TypeError):
    """Element types of an operation on tensors do not go together, or what is given is no tensor."""


class TensorIndexError(TensorError, IndexError):
    """An index or an axis lies outside of a tensor."""
