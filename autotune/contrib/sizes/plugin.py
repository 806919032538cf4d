"""Any size on the command line: `import --dim` makes the folder, `tune FOLDER` tunes each of its sizes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import whole
from autotune.plugins import Arguments, VerbOption, option

if TYPE_CHECKING:
    from autotune.contrib.sizes.folder import SizedModel

USUAL_SIZES, MOST_SIZES = 8, 64


def import_any_size(arguments: Arguments) -> None:
    """`import` of a model at any size within bounds."""
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
    """Print what was made."""
    from autotune.contrib.sizes.plan import describe
    from autotune.core.console import duration

    typer.echo(f"{folder}: {'; '.join(describe(model.dims))}")
    for each in model.sizes:
        typer.echo(f"  {each.name}: {duration(each.seconds)} by default schedules")
    typer.echo(f"verified at {model.tried} sizes, off by {model.error:.1g} at most; autotune tune {folder}")


def tune_sizes(arguments: Arguments) -> None:
    """`tune` of every compiled size of a folder, each with as many trials."""
    from autotune.contrib.sizes.tuning import tune_sized
    from autotune.core.console import duration
    from autotune.core.errors import OptionError
    from autotune.core.progress import ProgressLine
    from autotune.tuning.options import options_given

    folders, options = arguments["payloads"], options_given(arguments)
    others = [f"--{name}" for name in ("bundle", "cluster", "kind", "as_json") if arguments[name]]
    others += ["--schedule"] * bool(options.schedule) + ["--threads"] * (options.threads > 1)
    if len(folders) > 1 or others:
        what = ", ".join(others) or "other payloads"
        raise OptionError(f"a model of any size must be tuned alone, on one core, into its folder; drop {what}")
    with ProgressLine(folders[0]) as line:
        model = tune_sized(Path(folders[0]), arguments["store"], options, line)
    for each in model.sizes:
        typer.echo(f"  {each.name}: {duration(each.seconds)}")


def takes_folder(arguments: Arguments) -> bool:
    """Tell whether a payload is a folder of a model of any size."""
    from autotune.contrib.sizes.folder import is_sized  # heavy: what reads folders

    return any(is_sized(each) for each in arguments["payloads"])


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
TUNE = VerbOption("tune", (), takes=takes_folder, run=tune_sizes)
