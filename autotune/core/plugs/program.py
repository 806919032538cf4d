"""`Program`: what a family plans for a task and a config; nobody asks which kind it is, each says what is done with it.

WrittenScript   transform ops on the task's op, as a family writes them
UserScript      a user's own script with a value for every knob, written out where it is compiled
ExternalCode    machine code of another compiler, made when it is to be compiled
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.plugs.rewrites import NeededRewrite, Rewrites
from autotune.core.scripts.parametric import ChosenScript

WriteWhole = Callable[[ChosenScript], str]
WriteSequences = Callable[[ChosenScript], tuple[str, str]]


@dataclass(frozen=True)
class ProgramIdentity:
    """What tells the program of a config from others of its task and of the same shared lowering.

    Attributes:
        script: The script, or what stands for it.
        rewrites: Rewrites of compiled code that it asks for, which not all programs go through.
    """

    script: str
    rewrites: tuple[NeededRewrite, ...] = ()

    @property
    def text(self) -> str:
        """As the keys of trials have it."""
        return "".join(f"// {each.why} ({each})\n" for each in self.rewrites if each.why) + self.script


@dataclass(frozen=True)
class Program:
    """What a family plans for a task and a config.

    Attributes:
        rewrites: Rewrites of ours that are applied to the ops first, or that the script asks for.
    """

    rewrites: Rewrites = field(default_factory=Rewrites, kw_only=True)

    @property
    def script_key(self) -> str:
        """What tells it from others, besides its rewrites."""
        raise NotImplementedError

    @property
    def identity(self) -> ProgramIdentity:
        """What tells it from others."""
        return ProgramIdentity(self.script_key, self.rewrites.needed)

    @property
    def body(self) -> str:
        """Transform ops on ``%op``; empty where there are none."""
        return ""

    @property
    def sequences(self) -> str:
        """Named sequences that `body` includes."""
        return ""

    @property
    def whole(self) -> str:
        """The whole script, where it needs nothing around it; else empty."""
        return ""

    @property
    def alone(self) -> ChosenScript | None:
        """The script of a task that stands alone, where it is to be written by whoever compiles it."""
        return None

    @property
    def kernel(self) -> ExternalKernel | None:
        """Code that computes the ops, to which nothing is done then; `None` where there is a script."""
        return None

    def made(self) -> "Program":
        """The program with all that takes a compiler of others.

        Raises:
            KernelError: The code cannot be made.
        """
        return self

    def written(self, whole: WriteWhole, sequences: WriteSequences) -> "Program":
        """The program with its script written out, so that it stands in one script with others.

        Args:
            whole: Writes a user's script of a whole payload.
            sequences: Writes a user's script of one op: its named sequences, and the ops that include them.
        """
        return self


@dataclass(frozen=True)
class WrittenScript(Program):
    """A script that a family wrote.

    Attributes:
        ops: Transform ops on ``%op``, as `Family.build` gave them.
        included: Named sequences that they include.
    """

    ops: str
    included: str = ""

    @property
    def script_key(self) -> str:
        """The ops."""
        return self.ops

    @property
    def body(self) -> str:
        """The ops."""
        return self.ops

    @property
    def sequences(self) -> str:
        """Named sequences that the ops include."""
        return self.included


@dataclass(frozen=True)
class UserScript(Program):
    """A user's own script.

    Attributes:
        digest: Hash of what the script does.
        chosen: The script, with what is chosen for its knobs.
        text: All of it as it is written; empty before.
    """

    digest: str
    chosen: ChosenScript
    text: str = ""

    @property
    def script_key(self) -> str:
        """The script's hash, with what is chosen; the number of ops that it is for is the payload's to say."""
        return f"{self.digest} {self.chosen.attributes} {self.chosen.results}"

    @property
    def whole(self) -> str:
        """All of it, once it is written."""
        return self.text

    @property
    def alone(self) -> ChosenScript | None:
        """The script, until it is written."""
        return None if self.text else self.chosen

    def written(self, whole: WriteWhole, sequences: WriteSequences) -> Program:
        """The script written out: whole, or as sequences of the one that all tasks share."""
        if not self.chosen.tag:
            return replace(self, text=whole(self.chosen))
        included, ops = sequences(self.chosen)
        return WrittenScript(ops, included, rewrites=self.rewrites)


@dataclass(frozen=True)
class ExternalCode(Program):
    """Machine code that another compiler, or a person, made.

    Attributes:
        origin: What tells it from other code of the task: who makes it, in which version, with which config.
        make: Makes the code; raises `KernelError` where that fails.
        code: The code; `None` before it is made.
    """

    origin: str = ""
    make: Callable[[], ExternalKernel] | None = field(default=None, compare=False)
    code: ExternalKernel | None = None

    @property
    def script_key(self) -> str:
        """What makes it."""
        return self.origin

    @property
    def kernel(self) -> ExternalKernel | None:
        """The code."""
        return self.code

    def made(self) -> Program:
        """With the code, which is made if it is not there.

        Raises:
            KernelError: The code cannot be made.
        """
        return replace(self, code=self.make()) if self.code is None and self.make is not None else self
