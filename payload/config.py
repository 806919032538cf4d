"""Sizes of a GPT, and the parsing of payload parameters from the text of a spec."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from autotune.core.errors import PayloadError
from autotune.core.options import read_whole

LARGEST_SIZE = 2**31 - 1
Factory = TypeVar("Factory", bound=Callable[..., Any])
STORAGES = {"f32": "f32", "bf16": "bf16", "int8": "i8"}


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT-2 style model.

    Attributes:
        seq: Tokens of one call, T.
        d_model: Width of the residual stream, C.
        layers: Number of blocks, L.
        heads: Attention heads, H; divides `d_model`.
        d_ff: Width of the hidden layer of the MLP, F.
        vocab: Size of the vocabulary, V.
        positions: Number of positions, P; at least `seq`. Rows of the position table and of the caches.
        batch: Sequences that are decoded together, B.
        rope: Rotary position embedding of queries and keys instead of a position table.
        storage: Element type that matrices are stored in: ``f32``, ``bf16``, or ``i8`` with a scale per output channel.
    """

    seq: int
    d_model: int
    layers: int
    heads: int
    d_ff: int
    vocab: int
    positions: int
    batch: int = 1
    rope: bool = False
    storage: str = "f32"

    def __post_init__(self) -> None:
        for name, size in self.numbers.items():
            check_size(name, size)
        if self.d_model % self.heads:
            raise PayloadError(
                f"heads must divide d_model, got {self.heads} and {self.d_model}; "
                f"try heads={nearest_divisor(self.d_model, self.heads)}"
            )
        if self.seq > self.positions:
            raise PayloadError(
                f"seq must be at most positions, got {self.seq} and {self.positions}; try positions={self.seq}"
            )
        if self.rope and self.depth % 2:
            raise PayloadError(
                f"d_model / heads must be even for rotary positions, got {self.depth}; try d_model={2 * self.d_model}"
            )

    @property
    def depth(self) -> int:
        """Width of one head, D."""
        return self.d_model // self.heads

    @property
    def numbers(self) -> dict[str, int]:
        """Fields that are sizes."""
        return {name: size for name, size in asdict(self).items() if name not in ("rope", "storage")}


def check_size(name: str, size: int, least: int = 1) -> None:
    """Raise unless `size` is a valid tensor size.

    Raises:
        PayloadError: The size is below `least` or above 2^31 - 1.
    """
    if size < least:
        raise PayloadError(f"{name} must be at least {least}, got {size}; try {name}={least}")
    if size > LARGEST_SIZE:
        raise PayloadError(f"{name} must be at most {LARGEST_SIZE}, got {size}; try {name}=1024")


def read_positions(text: str, default: int) -> tuple[int, bool]:
    """Parse the number of positions and whether they are rotary from ``128``, ``rope`` or ``rope:128``."""
    rope, _, count = text.partition(":") if text.partition(":")[0] == "rope" else ("", "", text)
    return read_number("positions", count or str(default), default), bool(rope)


def write_positions(config: GPTConfig, default: int) -> str:
    """Write the text that `read_positions` parses; the count is omitted where it is the default."""
    if not config.rope:
        return str(config.positions)
    return "rope" if config.positions == default else f"rope:{config.positions}"


def read_weights(text: str) -> tuple[str, str]:
    """Parse element type and path of the weights from ``FILE``, ``bf16``, ``int8`` or ``int8:FILE``."""
    form, _, path = text.partition(":")
    return (STORAGES[form], path) if form in STORAGES else ("f32", text)


def write_weights(config: GPTConfig, path: str) -> str:
    """Write the text that `read_weights` parses."""
    if config.storage == "f32":
        return path
    form = next(name for name, storage in STORAGES.items() if storage == config.storage)
    return f"{form}:{path}" if path else form


def nearest_divisor(number: int, wanted: int) -> int:
    """Return the divisor of `number` closest to `wanted`, the larger of two as close: 4 for 64 and 3."""
    candidates = (d for low in range(1, int(number**0.5) + 1) if number % low == 0 for d in (low, number // low))
    return min(candidates, key=lambda divisor: (abs(divisor - wanted), -divisor))


def read_numbers(payload: str, parameters: Mapping[str, str], defaults: Mapping[str, int]) -> dict[str, int]:
    """Parse an integer for every parameter in `defaults`; a parameter missing from the spec has its default.

    Args:
        payload: Name of the payload, for messages.
        parameters: Parameters of the spec, as text.
        defaults: Every known parameter and its default.

    Raises:
        PayloadError: A parameter is unknown, or its value is not an integer.
    """
    check_known(payload, parameters, defaults)
    return {name: read_number(name, parameters.get(name, str(default)), default) for name, default in defaults.items()}


def with_parameters(defaults: Mapping[str, object]) -> Callable[[Factory], Factory]:
    """Decorate a payload factory with its parameters and their defaults, which `autotune list` shows."""

    def mark(factory: Factory) -> Factory:
        factory.parameters = dict(defaults)  # type: ignore[attr-defined]
        return factory

    return mark


def check_known(payload: str, parameters: Mapping[str, str], known: Mapping[str, object]) -> None:
    """Raise unless the payload has every given parameter."""
    for name in parameters:
        if name not in known:
            raise PayloadError(f"parameters of {payload} are {', '.join(known)}; got {name!r}; leave it out")


def read_number(name: str, text: str, default: int) -> int:
    """Parse `text` as an integer; `default` is suggested in the error message."""
    try:
        return read_whole(text)
    except ValueError as error:
        raise PayloadError(f"{name} must be a whole number, got {text!r}; try {name}={default}") from error


def read_switch(name: str, value: int) -> bool:
    """Return true for 1 and false for 0."""
    if value not in (0, 1):
        raise PayloadError(f"{name} must be 0 or 1, got {value}; try {name}=1")
    return bool(value)


def write_spec(payload: str, values: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """Write the canonical spec: the payload's name, then the parameters that differ from their defaults, in order.

    >>> write_spec("gpt2", {"seq": 64, "layers": 12}, {"seq": 128, "layers": 12})
    'gpt2,seq=64'
    """
    changed = [f"{name}={values[name]}" for name in defaults if values[name] != defaults[name]]
    return ",".join([payload, *changed])


NANO = GPTConfig(seq=32, d_model=64, layers=2, heads=4, d_ff=256, vocab=256, positions=128)
GPT2 = GPTConfig(seq=128, d_model=768, layers=12, heads=12, d_ff=3072, vocab=50257, positions=1024)
