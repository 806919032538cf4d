"""Generating tokens: what is asked for, and what a model must offer to be asked.

Like payloads, generators are content: they are found by name through the entry-point group ``autotune.generators``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from autotune.core.errors import GenerationError
from autotune.core.options import MOST_COUNT, check_real, check_seed, check_whole
from autotune.core.payload import Array, Payload
from autotune.registry import find_point, load_point

GENERATORS = "autotune.generators"
MOST_TEMPERATURE = 1e6
LEAST_SHARE = 1e-12  # of probability
Function = Callable[..., tuple[Array, ...]]  # inputs by name to outputs; states stay where they are
Load = Callable[[Payload], Function]


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from logits.

    Attributes:
        temperature: Divides the logits; 0 takes the likeliest token.
        top_k: Only so many of the likeliest; 0 for all.
        top_p: Only the likeliest whose probabilities together reach this much.
        seed: Seed of the draws.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_real("temperature", self.temperature, 0.0, MOST_TEMPERATURE)
        check_whole("top_k", self.top_k, 0, MOST_COUNT)
        check_real("top_p", self.top_p, LEAST_SHARE, 1.0, example=0.9)
        check_seed(self.seed)


@dataclass(frozen=True)
class GenerationRequest:
    """Prompt to continue, and how.

    Attributes:
        prompt: Ids of the prompt's tokens, at least one.
        max_new: Largest number of tokens to add.
        sampling: Rule that the tokens are chosen by.
        stop: Tokens that end the text; the one that does is given too.
        cached: Keep what attention needs of earlier tokens, instead of computing it again.
    """

    prompt: tuple[int, ...]
    max_new: int
    sampling: Sampling = field(default_factory=Sampling)
    stop: frozenset[int] = frozenset()
    cached: bool = True

    def __post_init__(self) -> None:
        if not self.prompt:
            raise GenerationError("a prompt must have at least one token, it has none; try --prompt-tokens 0")
        check_whole("max_new", self.max_new, 1, MOST_COUNT)


class Generator(Protocol):
    """Opens a model for a request: an entry point of ``autotune.generators`` by the payload's name."""

    def __call__(self, name: str, parameters: dict[str, str], request: GenerationRequest, load: Load) -> Iterator[int]:
        """Compile all that the request needs, then give its tokens one by one.

        Args:
            name: Name of the payload.
            parameters: Parameters of the payload's spec.
            request: Prompt, and what to generate from it.
            load: Compiles a payload. Functions of one session share weights and states by name.

        Raises:
            GenerationError: The request does not fit the model; before anything is compiled.
            PayloadError: The parameters are impossible.
        """
        ...


def load_generator(name: str) -> Generator:
    """The generator of the model called `name`.

    Raises:
        GenerationError: There is none.
    """
    return cast(Generator, load_point(find_point(GENERATORS, "model", name, GenerationError)))
