"""`Candidate`: a payload's compilation by a script and a pass pipeline; `Claim`: a program with its input seed."""

from dataclasses import dataclass

from autotune.core.payload import Payload
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.scripts.parametric import ChosenScript

Script = str | ChosenScript  # text, or a user script with the values of its knobs


@dataclass(frozen=True)
class Candidate:
    """One way to compile a payload.

    Attributes:
        script: Transform script, as text or as an instantiated user script; `None` for a pure pass pipeline.
        pipeline: Pass pipeline that runs after the script.
        text: Module to start from, where that is not the payload's own text (the tagged module); else `None`.
        panels: Pairs of a tag whose op reads its weight from panels, and the columns of a panel.
        part: Sampling factor: of the outermost long loops, one in `part` iterations is run, and times are scaled to the
            whole work; 1 runs all. Results of the iterations that were run are verified, where possible.
        kernels: External kernels that compute some of the tasks.
    """

    script: Script | None
    pipeline: str
    text: str | None = None
    panels: tuple[tuple[str, int], ...] = ()
    part: int = 1
    kernels: tuple[ExternalKernel, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A program to be checked: its payload, how it is compiled, and the seed of its inputs."""

    payload: Payload
    candidate: Candidate
    seed: int = 0
