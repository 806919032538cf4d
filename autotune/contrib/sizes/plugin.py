"""Command-line options for models of any size: `import --dim` writes the folder, `tune FOLDER` tunes each size."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.options import whole
from autotune.contrib.sizes.bounds import name_of
from autotune.contrib.sizes.paths import BUNDLES, SIZES, is_sized
from autotune.core.errors import PayloadError
from autotune.core.host.whole_file import write_file
from autotune.plugins import Arguments, VerbOption, option

if TYPE_CHECKING:
    from autotune.contrib.sizes.folder import SizedModel

USUAL_SIZES, MOST_SIZES = 8, 64


def import_any_size(arguments: Arguments) -> None:
    """Import a model for any size within bounds (`import --dim`)."""
    from autotune.contrib.sizes.bounds import parse_bounds
    from autotune.contrib.sizes.making import import_sized
    from autotune.core.errors import OptionError
    from autotune.core.options import check_whole
    from autotune.core.progress import ProgressLine

    check_whole("sizes", arguments["sizes"], 1, MOST_SIZES)
    if not arguments["dim"]:
        raise OptionError("--sizes must come with --dim, which says between which sizes; give --dim NAME=LOW..HIGH")
    bounds, path = parse_bounds(arguments["dim"]), Path(arguments["model"])
    folder = arguments["output"] or path.parent / path.stem
    with ProgressLine(str(path)) as line:
        model = import_sized(path, bounds, folder, most=arguments["sizes"], listener=line)
    show_sized(model, folder)


def show_sized(model: "SizedModel", folder: Path) -> None:
    """Print a summary of an imported model."""
    from autotune.contrib.sizes.plan import describe

    typer.echo(f"{folder}: {'; '.join(describe(model.dims))}")
    show_sizes(model, " by default schedules")
    typer.echo(f"verified at {model.tried} sizes, off by {model.error:.1g} at most; autotune tune {folder}")


def show_sizes(model: "SizedModel", how: str = "") -> None:
    """Print each compiled size with its time, its kind of schedules and what else it serves."""
    from autotune.core.console import duration

    for each in model.sizes:
        also = f", also multiples of {each.grain} below" if each.grain else ""
        typer.echo(f"  {each.name}: {duration(each.seconds)}{how}{also}")


def tune_sizes(arguments: Arguments) -> None:
    """Tune every compiled size of a folder, each with the same number of trials (`tune`)."""
    from autotune.contrib.sizes.tuning import tune_sized
    from autotune.core.errors import OptionError
    from autotune.core.progress import ProgressLine
    from autotune.tuning.options import options_given

    folders, options = arguments["payloads"], options_given(arguments)
    unsupported = [f"--{name}" for name in ("bundle", "as_json") if arguments[name]]
    unsupported += ["--schedule"] * bool(options.schedule) + ["--threads"] * (options.threads > 1)
    if len(folders) > 1 or unsupported:
        unsupported_options = ", ".join(unsupported) or "other payloads"
        raise OptionError(
            f"a model of any size must be tuned alone, on one core, into its folder; drop {unsupported_options}"
        )
    with ProgressLine(folders[0]) as line:
        model = tune_sized(Path(folders[0]), arguments["store"], options, line)
    show_sizes(model)


def inspect_sizes(arguments: Arguments) -> None:
    """Print a folder's compiled sizes and the expected times of calls (`inspect`)."""
    from autotune.contrib.sizes.folder import read_sized
    from autotune.contrib.sizes.plan import describe, shown_requests
    from autotune.core.console import duration
    from autotune.core.errors import OptionError

    if unsupported := [
        f"--{name.replace('_', '-')}" for name, value in arguments.items() if value and name != "source"
    ]:
        raise OptionError(f"a model of any size is inspected as it is; drop {', '.join(unsupported)}")
    model = read_sized(Path(arguments["source"]))
    typer.echo(f"{model.source}: {'; '.join(describe(model.dims))}")
    show_sizes(model)
    typer.echo("expected:")
    requests = shown_requests(model.dims)
    for request, took in zip(requests, map(float, model.seconds_of(requests)), strict=True):
        typer.echo(f"  {name_of(request)}: {duration(took)}")


def report_sizes(arguments: Arguments) -> None:
    """Write a folder's page of expected times (`report`)."""
    from autotune.cli.report import show_page
    from autotune.cli.say import complain
    from autotune.contrib.sizes.page import sized_page
    from autotune.core.errors import OptionError

    extra = [name for name, value in arguments.items() if value and name not in ("source", "output", "opens", "more")]
    if extra:
        raise OptionError(
            f"the page of a model of any size has no trials and no sections of plug-ins; drop --{extra[0]}, or name a "
            f"bundle of one size in {Path(arguments['source']) / BUNDLES}"
        )
    page = arguments["output"]
    write_file(page, sized_page(Path(arguments["source"])))
    complain(str(page))
    if arguments["opens"]:
        show_page(page)


def takes_folder(parameter: str) -> Callable[[Arguments], bool]:
    """Return a predicate for a verb's arguments: whether they name a folder of a model of any size.

    Args:
        parameter: Parameter of the verb that names one or several payloads or bundles.
    """
    return lambda arguments: bool(folders_in(arguments[parameter]))


def folders_in(value: Any) -> list[Any]:  # noqa: ANN401 - a path, several or none, as a verb has them
    """Return the folders of models of any size among the values of a parameter."""
    return list(filter(is_sized, value if isinstance(value, list | tuple) else filter(None, (value,))))


def one_size(verb: str, parameter: str, kind: str) -> VerbOption:
    """Return the option by which a verb for a single size refuses a folder of many.

    Args:
        verb: Name of the verb.
        parameter: Parameter of the verb that names its input.
        kind: Subfolder of the inputs that the verb takes: `SIZES` or `BUNDLES`.
    """

    def refuse(arguments: Arguments) -> None:
        folder = folders_in(arguments[parameter])[0]
        sizes = sorted(each.name for each in (Path(folder) / kind).glob("*/"))
        hint = f"name one, {Path(folder) / kind / sizes[0]}" if sizes else f"run autotune tune {folder} first"
        raise PayloadError(f"{verb} must be given one size, {folder} holds a model of any size; {hint}")

    return VerbOption(verb, (), takes=takes_folder(parameter), run=refuse)


IMPORT = VerbOption(
    "import",
    (
        option(
            "dim",
            Annotated[
                list[str] | None,
                typer.Option(
                    "--dim", metavar="NAME=LOW..HIGH", help="Sizes to serve along an open dimension; once each."
                ),
            ],
            None,
        ),
        option(
            "sizes",
            Annotated[int, typer.Option(parser=whole, help="With --dim: most sizes to compile.")],
            USUAL_SIZES,
        ),
    ),
    takes=lambda arguments: bool(arguments["dim"]) or arguments["sizes"] != USUAL_SIZES,
    run=import_any_size,
)
TUNE = VerbOption("tune", (), takes=takes_folder("payloads"), run=tune_sizes)
INSPECT = VerbOption("inspect", (), takes=takes_folder("source"), run=inspect_sizes)
SHOW, COMPARE = one_size("show", "source", SIZES), one_size("compare", "payload", SIZES)
REPLAY, REGRESS = one_size("replay", "bundle", BUNDLES), one_size("regress", "bundles", BUNDLES)
REPORT = VerbOption("report", (), takes=takes_folder("source"), run=report_sizes)
EXPLAIN = one_size("explain", "bundle", BUNDLES)
