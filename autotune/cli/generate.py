"""`autotune generate`: tokens from a language model."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli.options import home

EXAMPLE = "autotune generate nano --prompt-tokens 1,2,3 --max-new 16"


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="nano, gpt2, or gpt with sizes, as for `tune`.")],
    prompt_tokens: Annotated[str, typer.Option(metavar="N,N,...", help="The prompt, as token ids.")] = "",
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="The prompt as text; needs --tokenizer.")] = "",
    tokenizer: Annotated[Path | None, typer.Option(metavar="FILE", help="A tokenizer.json: text in, text out.")] = None,
    max_new: Annotated[int, typer.Option(help="How many tokens to add at most.")] = 64,
    weights: Annotated[Path | None, typer.Option(metavar="FILE", help="A Hugging Face GPT-2 safetensors file.")] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Draw from so many of the likeliest; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest that reach this probability together.")] = 1.0,
    stop: Annotated[str, typer.Option(metavar="N,N,...", help="Tokens that end the text.")] = "",
    seed: Annotated[int, typer.Option(help="Of the draws, and of weights without --weights.")] = 0,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep keys and values of earlier tokens.")] = True,
) -> None:
    """Generate tokens with tuned prefill and decode: tokens to stdout, tokens a second to stderr.

    Schedules are those of the newest bundles here, or defaults. Without --weights, weights are random.

    Example: autotune generate nano --prompt-tokens 1,2,3 --max-new 16
    """
    from autotune.errors import GenerationError
    from autotune.generation import Request, Sampling
    from autotune.registry import load_generator, parse_spec
    from autotune.session import Session
    from autotune.watch import Stopwatch

    name, parameters = parse_spec(model)
    if weights is not None:
        form = parameters.get("weights", "")
        parameters["weights"] = f"{form}:{weights}" if form else str(weights)
    if bool(prompt) == bool(prompt_tokens) or (prompt and tokenizer is None):
        raise GenerationError(f"a prompt must be --prompt-tokens, or --prompt with --tokenizer; try {EXAMPLE}")
    coder = open_tokenizer(tokenizer) if tokenizer is not None else None
    tokens = coder.encode(prompt).ids if coder is not None and prompt else read_tokens(prompt_tokens)
    sampling = Sampling(temperature, top_k, top_p, seed)
    request = Request(tuple(tokens), max_new, sampling, frozenset(read_tokens(stop)), cache)
    watch = Stopwatch()
    with watch.phase("compile"):
        session = Session(
            home() / "bundles", note=lambda sentence: typer.echo(f"autotune: {sentence}", err=True), seed=seed
        )
        found = load_generator(name)(name, parameters, request, session.load)
    say: Callable[[int], None] = lambda token: typer.echo(f"{token} ", nl=False)  # noqa: E731
    made: list[int] = []
    with watch.phase("first"):
        made.append(next(found))
    with watch.phase("rest"):
        if coder is None:
            say(made[0])
        for token in found:
            made.append(token)
            if coder is None:
                say(token)
    typer.echo(coder.decode(made) if coder is not None else "")
    report(len(tokens), len(made), watch.phases)


def report(prompt: int, made: int, seconds: dict[str, float]) -> None:
    """Say how long it took."""
    rest = f"{(made - 1) / seconds['rest']:.4g} tokens a second, " if made > 1 else ""
    typer.echo(
        f"autotune: {made} tokens, {rest}the first after {seconds['first'] * 1e3:.3g} ms behind a prompt of {prompt}; "
        f"compiled in {seconds['compile']:.3g} s",
        err=True,
    )


def read_tokens(text: str) -> list[int]:
    """Token ids from ``1,2,3``.

    Raises:
        GenerationError: One is no whole number.
    """
    from autotune.errors import GenerationError

    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise GenerationError(f"tokens must be whole numbers with commas between, got {text!r}; try 1,2,3") from error


def open_tokenizer(path: Path) -> Any:  # noqa: ANN401 - an extra has its class
    """The tokenizer of a file.

    Raises:
        GenerationError: The library is not installed, or the file is no tokenizer.
    """
    from autotune.errors import GenerationError

    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise GenerationError(
            "--tokenizer needs the tokenizers library, it is not installed; pip install 'mlir-schedule-autotune[text]'"
        ) from error
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise GenerationError(f"a tokenizer must be a readable tokenizer.json, {path} is not: {error}") from error
