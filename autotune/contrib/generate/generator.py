"""Requests for token generation, and the interface of models that generate.

Generators are found by name through the entry-point group ``autotune.generators``.
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
LEAST_SHARE = 1e-12  # least probability mass for top-p sampling
Function = Callable[..., tuple[Array, ...]]  # from inputs by name to outputs; states are updated in place
Load = Callable[[Payload], Function]


@dataclass(frozen=True)
class Sampling:
    """Sampling of the next token from logits.

    Attributes:
        temperature: Divisor of the logits; 0 selects the most likely token.
        top_k: Number of most likely tokens to sample from; 0 for all.
        top_p: Least probability mass of the most likely tokens to sample from.
        seed: Seed of the random draws.
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
    """Prompt to continue, with options.

    Attributes:
        prompt: Ids of the prompt's tokens, at least one.
        max_new: Maximum number of new tokens.
        sampling: Sampling of the tokens.
        stop: Tokens that end the text; the last one is included in the output.
        cached: Whether to use a key-value cache instead of recomputing earlier tokens.
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
    """Function that opens a model for a request: an entry point of ``autotune.generators`` with the payload's name."""

    def __call__(self, name: str, parameters: dict[str, str], request: GenerationRequest, load: Load) -> Iterator[int]:
        """Compile all functions that the request needs, then yield its tokens one by one.

        Args:
            name: Name of the payload.
            parameters: Parameters of the payload's spec.
            request: Prompt, and what to generate from it.
            load: Function that compiles a payload. Functions of one session share weights and states by name.

        Raises:
            GenerationError: The request does not fit the model; raised before anything is compiled.
            PayloadError: The parameters are invalid.
        """
        ...


def load_generator(name: str) -> Generator:
    """Load the generator of the model called `name`.

    Raises:
        GenerationError: No such generator is installed.
    """
    return cast(Generator, load_point(find_point(GENERATORS, "model", name, GenerationError)))
