"""One way to compile a payload, and a program that somebody claims something of."""

from dataclasses import dataclass

from autotune.core.payload import Payload


@dataclass(frozen=True)
class Candidate:
    """One way to compile a payload.

    Attributes:
        script: Transform script; `None` for a pure pass pipeline.
        pipeline: Passes after it.
        text: The module it starts from, where that is not the payload's own text (the tagged module).
        panels: Tags whose op reads its weight from panels, with their columns.
        part: One in so many iterations of the outermost long loops is run, and times are multiplied by as many; 1 runs
            all. The results of a part are not right, and are not looked at.
    """

    script: str | None
    pipeline: str
    text: str | None = None
    panels: tuple[tuple[str, int], ...] = ()
    part: int = 1


@dataclass(frozen=True)
class Claim:
    """A program: what it computes, how it is compiled, and the seed of its inputs."""

    payload: Payload
    candidate: Candidate
    seed: int = 0
