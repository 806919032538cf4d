"""`autotune generate`: tokens from a language model."""

import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.options import AsJson, real, whole
from autotune.cli.say import complain
from autotune.core.host.machine import this_machine
from autotune.core.printable import lines
from autotune.plugins import Listing, Verb
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.contrib.generate.pace import Pace

MOST_BYTES = 256 << 20  # of a tokenizer.json
EXAMPLE = "autotune generate nano --prompt-tokens 1,2,3 --max-new 16"


def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="nano, gpt2, or gpt with sizes, as for `tune`; or a GGUF file.")
    ],
    prompt_tokens: Annotated[str, typer.Option(metavar="N,N,...", help="The prompt, as token ids.")] = "",
    prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="The prompt as text; needs --tokenizer, except for GGUF.")
    ] = "",
    tokenizer: Annotated[Path | None, typer.Option(metavar="FILE", help="A tokenizer.json: text in, text out.")] = None,
    max_new: Annotated[int, typer.Option(parser=whole, help="How many tokens to add at most.")] = 64,
    weights: Annotated[Path | None, typer.Option(metavar="FILE", help="A Hugging Face GPT-2 safetensors file.")] = None,
    temperature: Annotated[float, typer.Option(parser=real, help="0 takes the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(parser=whole, help="Draw from so many of the likeliest; 0 for all.")] = 0,
    top_p: Annotated[
        float, typer.Option(parser=real, help="Draw from the likeliest that reach this probability together.")
    ] = 1.0,
    stop: Annotated[str, typer.Option(metavar="N,N,...", help="Tokens that end the text.")] = "",
    seed: Annotated[int, typer.Option(parser=whole, help="Of the draws, and of weights without --weights.")] = 0,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep keys and values of earlier tokens.")] = True,
    both: Annotated[
        bool, typer.Option("--both", help="With the cache, without it, and with it again: the speed-up.")
    ] = False,
    bundles: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of bundles; by default tuned/MACHINE/bundles.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate tokens with tuned prefill and decode: tokens to stdout, tokens a second to stderr.

    Schedules are those of the newest bundles here, or defaults. Without --weights, weights are random.
    Exit 1 if --both gives other tokens without the cache.

    Example: autotune generate nano --prompt-tokens 1,2,3 --max-new 16
    """
    from autotune.bundles.session import Session
    from autotune.contrib.generate import imported
    from autotune.contrib.generate.generator import GenerationRequest, Sampling, load_generator
    from autotune.contrib.generate.pace import follow, follow_both
    from autotune.core.errors import GenerationError
    from autotune.core.listener import NoteKeeper
    from autotune.core.options import MOST_COUNT, check_whole
    from autotune.core.progress import ProgressLine
    from autotune.registry import parse_spec

    sampling = Sampling(temperature, top_k, top_p, seed)
    check_whole("max_new", max_new, 1, MOST_COUNT)
    name, parameters = parse_spec(model)
    if weights is not None:
        form = parameters.get("weights", "")
        parameters["weights"] = f"{form}:{weights}" if form else str(weights)
    is_file = imported.is_imported(name)
    if bool(prompt) == bool(prompt_tokens) or (prompt and tokenizer is None and not is_file):
        raise GenerationError(f"a prompt must be --prompt-tokens, or --prompt with --tokenizer; try {EXAMPLE}")
    if bundles is not None and not bundles.is_dir():
        raise GenerationError(f"--bundles must be a folder of bundles, {bundles} is none; leave it out")
    ends = frozenset(read_tokens(stop))
    if is_file:
        most = len(prompt.encode()) + 1 if prompt else len(read_tokens(prompt_tokens))
        rows = parameters.setdefault("positions", str(imported.room_for(most + max_new)))
        folder = imported.decode_folder(name, rows)
        ends |= imported.ends_of(folder)
        tokenizer = imported.tokenizer_of(folder, name) if prompt and tokenizer is None else tokenizer
    coder = open_tokenizer(tokenizer) if tokenizer is not None else None
    tokens = coder.encode(prompt).ids if coder is not None and prompt else read_tokens(prompt_tokens)
    request = GenerationRequest(tuple(tokens), max_new, sampling, ends, cache)
    listener = NoteKeeper(ProgressLine())
    session = Session(bundles or home() / "bundles", listener, seed)

    def start(cached: bool) -> Iterator[int]:
        opened = imported.open_imported if is_file else load_generator(name)
        tokens_of_model = opened(name, parameters, replace(request, cached=cached), session.load)
        gc.freeze()  # what compiling left would be looked through again and again, milliseconds each time
        return tokens_of_model

    text_of = imported.TextStream(coder).take if coder is not None else "{} ".format

    def say(token: int) -> None:
        if not as_json:
            print(printed(text_of(token)), end="", flush=True)

    paces = follow_both(start, say) if both else (follow(start(cache), say, cached=cache),)
    if as_json:
        record = {"model": model, "prompt": tokens, "runs": [asdict(pace) for pace in paces], "notes": listener.notes}
        machine = this_machine()
        typer.echo(json.dumps(record | {"machine": asdict(machine) | {"fingerprint": machine.fingerprint}}))
    else:
        typer.echo("")
    if not report(len(tokens), paces):
        raise typer.Exit(1)


def report(prompt: int, paces: "tuple[Pace, ...]") -> bool:
    """Print the token rates; return whether all runs gave the same tokens."""
    from autotune.contrib.generate.pace import cache_gain

    for pace in paces:
        first, *rest = pace.seconds
        rate = f"{len(rest) / sum(rest):.4g} tokens a second, " if rest else ""
        typer.echo(
            f"autotune: {len(pace.tokens)} tokens with{'' if pace.cached else 'out'} a cache, {rate}"
            f"the first after {first * 1e3:.3g} ms behind a prompt of {prompt}",
            err=True,
        )
    if len(paces) > 1:
        gain = cache_gain(paces, len(paces[0].tokens))
        complain(f"{gain:.3g} times as fast with the cache as without")
    same = len({pace.tokens for pace in paces}) == 1
    if not same:
        complain("tokens must be the same with and without the cache, they differ")
    return same


def read_tokens(text: str) -> list[int]:
    """Parse token ids such as ``1,2,3``.

    Raises:
        GenerationError: An id is not an integer.
    """
    from autotune.core.errors import GenerationError
    from autotune.core.options import read_whole

    try:
        return [read_whole(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise GenerationError(f"tokens must be whole numbers with commas between, got {text!r}; try 1,2,3") from error


def printed(text: str) -> str:
    """Escape control characters in untrusted text if stdout is a terminal."""
    return lines(text) if sys.stdout.isatty() else text


def open_tokenizer(path: Path) -> Any:  # noqa: ANN401 - an extra has its class
    """Load the tokenizer of a file.

    Raises:
        GenerationError: The library is not installed, or the file is not a tokenizer.
    """
    from autotune.core.errors import GenerationError
    from autotune.core.host.extras import install_command
    from autotune.core.host.files import read_text

    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise GenerationError(
            f"--tokenizer needs the tokenizers library, it is not installed; {install_command('text')}"
        ) from error
    text = read_text(path, MOST_BYTES, "a tokenizer must be a readable tokenizer.json", GenerationError)
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise GenerationError(f"a tokenizer must be a readable tokenizer.json, {path} is not: {error}") from error


VERB = Verb(generate, "Find schedules", "Generate tokens by tuned prefill and decode.", after="tune")
LISTING = Listing()  # of generators
