"""One way to compile a payload, and a program with a claim about it."""

from dataclasses import dataclass

from autotune.core.payload import Payload
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.scripts.parametric import ChosenScript

Script = str | ChosenScript  # as text, or as a user's own with what is chosen for its knobs


@dataclass(frozen=True)
class Candidate:
    """One way to compile a payload.

    Attributes:
        script: Transform script, as text or as a user's own with every choice made; `None` for a pure pass pipeline.
        pipeline: Passes after it.
        text: The module it starts from, where that is not the payload's own text (the tagged module).
        panels: Tags whose op reads its weight from panels, with their columns.
        part: One in so many iterations of the outermost long loops is run, and times are multiplied by the share of the
            work that this is; 1 runs all. What follows from the iterations that were run is verified, where that shows.
        kernels: Code of others that computes some tasks.
    """

    script: Script | None
    pipeline: str
    text: str | None = None
    panels: tuple[tuple[str, int], ...] = ()
    part: int = 1
    kernels: tuple[ExternalKernel, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A program: what it computes, how it is compiled, and the seed of its inputs."""

    payload: Payload
    candidate: Candidate
    seed: int = 0
