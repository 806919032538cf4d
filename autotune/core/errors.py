"""Exceptions of the package.

A failed *call* raises; a failed *candidate* does not: it becomes a `Trial` with an outcome.
Every message states the constraint, then the value, then the remedy, on one line.
"""


class AutotuneError(Exception):
    """Base class of the errors that this project raises; the command line prints it as one line and exits with 2."""


class PluginError(AutotuneError):
    """A plug-in cannot be loaded: it is broken, or its package was changed since it was installed."""


class OptionError(AutotuneError, ValueError):
    """An option is of the wrong type or out of range; raised before anything is done."""


class PayloadError(AutotuneError):
    """The payload is unknown, has impossible sizes, or is not a module that can be tuned."""


class RefusedModelError(PayloadError):
    """An importer does not support a model; reading it again raises the same error."""


class SpaceError(AutotuneError):
    """A knob, a space or a config contradicts its own definition."""


class ScheduleError(AutotuneError):
    """A schedule cannot be written for this task, or is unknown."""


class RuleError(AutotuneError):
    """Rewrite rules cannot be parsed, do not terminate, or change what the payload computes."""


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
    """A back end could not generate a task's code.

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
    """A tuned result does not pass the checks of a replay; the command line exits with 1."""


class ComparatorError(AutotuneError):
    """A library to compare with is unknown, or cannot compute a payload."""


class GenerationError(AutotuneError):
    """A prompt, a token, a position or a way of sampling is impossible; raised before any compiled code runs."""


class MachineError(AutotuneError):
    """This machine lacks a requirement; the message says what to install or change."""


class AnswerError(AutotuneError):
    """The answer of an isolated process is not of the expected type."""


class TensorError(AutotuneError, ValueError):
    """An operation on tensors is invalid; raised where it is called, with the shapes, before anything is compiled."""


class TensorTypeError(TensorError, TypeError):
    """Element types of an operation on tensors are incompatible, or an operand is no tensor."""


class TensorIndexError(TensorError, IndexError):
    """An index or an axis lies outside of a tensor."""
