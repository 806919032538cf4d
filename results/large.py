"""A model of 6 GB of weights, in docs/results.md: memory of each command (`measure`), and the table (`render`).

A decoder of wide layers with random weights is written as an ONNX file, its weights in a file beside it
(`build/large`, 6 GB of disk). `import`, `tune --trials 20` and `replay` run one after the other; the memory of each
command and of all its processes is looked at every second. Needs the extra `import`.
"""

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import numpy as np
import psutil
import typer
from blocks import Block, keep, read, table

PROGRAM = str(Path(sys.executable).with_name("autotune"))
NAME, FOLDER, MODEL = "large", Path(__file__).resolve().parent.parent / "build" / "large", "decoder"
TOKENS, DEPTH, LOW = 16, 128, -1e30
LAYERS, WIDTH, WORDS = 7, 4096, 16000  # 1.54e9 weights
LOOK_SECONDS = 1.0
PAGE, PIECE = 4096, 1 << 24  # bytes that weights begin at a multiple of; elements written at once
MOST_BYTES = 16e9
HEAD = ("command", "weights", "memory of its own", "with what it maps of files", "within 16 GB", "seconds")

Layers = Annotated[int, typer.Option(help="Layers of the model, 805 MB each.")]


def onnx() -> Any:  # noqa: ANN401 - a module
    """The package, which rendering does without."""
    return import_module("onnx")


@dataclass
class Decoder:
    """A causal decoder that is being written; its weights go to a file as they are drawn.

    Attributes:
        file: File of the weights, whose name is the graph's.
        name: Name of that file.
    """

    file: IO[bytes]
    name: str
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 - whatever ONNX has
        """Name of an op's only result."""
        self.nodes.append(onnx().helper.make_node(kind, inputs, [f"t{len(self.nodes)}"], **attributes))
        return f"t{len(self.nodes) - 1}"

    def constant(self, value: Any) -> str:  # noqa: ANN401 - whatever NumPy takes
        """Name of a tensor in the graph."""
        self.tensors.append(onnx().numpy_helper.from_array(np.asarray(value), f"c{len(self.tensors)}"))
        return f"c{len(self.tensors) - 1}"

    def weight(self, *shape: int) -> str:
        """Name of a random tensor in the file of weights."""
        tensor = onnx().TensorProto(name=f"c{len(self.tensors)}", data_type=onnx().TensorProto.FLOAT, dims=shape)
        self.file.write(bytes(-self.file.tell() % PAGE))
        left, start = int(np.prod(shape)), self.file.tell()
        while left:
            count = min(left, PIECE)
            self.file.write((0.04 * self.rng.random(count, dtype=np.float32) - 0.02).astype(np.float32).data)
            left -= count
        tensor.data_location = onnx().TensorProto.EXTERNAL
        for key, value in {"location": self.name, "offset": start, "length": self.file.tell() - start}.items():
            tensor.external_data.add(key=key, value=str(value))
        self.tensors.append(tensor)
        return tensor.name

    def linear(self, x: str, rows: int, columns: int) -> str:
        """A product with a weight, and a bias."""
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns))

    def norm(self, x: str, width: int) -> str:
        """A layer norm of rows."""
        return self.op("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)

    def layer(self, x: str, width: int) -> str:
        """Attention and two products, with what they add to: rows (T, C)."""
        split, joined = self.constant([TOKENS, width // DEPTH, DEPTH]), self.constant([TOKENS, width])
        mask = self.constant(np.triu(np.full((TOKENS, TOKENS), LOW, np.float32), 1))
        h = self.norm(x, width)
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.linear(h, width, width), split), perm=order)
            for order in ([1, 0, 2], [1, 2, 0], [1, 0, 2])
        )
        scores = self.op("Mul", self.op("MatMul", q, k), self.constant(np.float32(DEPTH**-0.5)))
        mixed = self.op("MatMul", self.op("Softmax", self.op("Add", scores, mask), axis=-1), v)
        rows = self.op("Reshape", self.op("Transpose", mixed, perm=[1, 0, 2]), joined)
        x = self.op("Add", self.linear(rows, width, width), x)
        inner = self.op("Gelu", self.linear(self.norm(x, width), width, 4 * width))
        return self.op("Add", self.linear(inner, 4 * width, width), x)


def write(path: Path, layers: int, width: int, words: int) -> None:
    """Write a decoder as an ONNX file, and its weights as one beside it."""
    with path.with_suffix(".bin").open("wb") as file:
        decoder = Decoder(file, path.with_suffix(".bin").name)
        x = decoder.op("Gather", decoder.weight(words, width), "ids")
        for _ in range(layers):
            x = decoder.layer(x, width)
        y = decoder.op("MatMul", decoder.norm(x, width), decoder.weight(width, words))
    graph = onnx().helper.make_graph(
        decoder.nodes,
        "decoder",
        [onnx().helper.make_tensor_value_info("ids", onnx().TensorProto.INT64, [TOKENS])],
        [onnx().helper.make_tensor_value_info(y, onnx().TensorProto.FLOAT, [TOKENS, words])],
        decoder.tensors,
    )
    model = onnx().helper.make_model(graph, opset_imports=[onnx().helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def measure(layers: Layers = LAYERS) -> None:
    """Record each command; the model is written where it is not there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, folder, bundle, store = (FOLDER / f"{MODEL}{layers}{end}" for end in (".onnx", "", ".bundle", ".journal"))
    store.unlink(missing_ok=True)
    shutil.rmtree(bundle, ignore_errors=True)
    if not path.is_file():
        write(path, layers, WIDTH, WORDS)
    found: dict[str, Any] = {"bytes": path.with_suffix(".bin").stat().st_size, "layers": layers, "commands": {}}
    for command in (
        ["import", str(path), "-o", str(folder)],
        ["tune", str(folder), "--trials", "20", "--store", str(store), "--bundle", str(bundle)],
        ["replay", str(bundle)],
    ):
        found["commands"][command[0]] = watched([PROGRAM, *command])
        typer.echo(f"{command[0]}: {found['commands'][command[0]]}")
    keep(NAME, MODEL, found)


def watched(command: list[str]) -> dict[str, float]:
    """Most memory of a command and its processes, and the seconds that it took.

    Raises:
        CalledProcessError: The command fails; a `replay` whose times are too noisy to be compared does not.
    """
    begun, own, whole = time.perf_counter(), 0, 0
    with TemporaryFile("w+") as output, subprocess.Popen(command, stdout=output) as process:
        while process.poll() is None:
            now = memory_of(process.pid)
            own, whole = max(own, now[0]), max(whole, now[1])
            time.sleep(LOOK_SECONDS)
        output.seek(0)
        text = output.read()
    typer.echo(text)
    if process.returncode and "verified" not in text:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {"own_bytes": own, "whole_bytes": whole, "seconds": time.perf_counter() - begun}


def memory_of(pid: int) -> tuple[int, int]:
    """Bytes of memory of a process and those below it: their own, and with the pages of files that they map.

    What several share is counted once (proportional set size).
    """
    own = whole = 0
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(OSError):
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
                kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Pss")}
                own += 1024 * (kilobytes["Pss_Anon"] + kilobytes["Pss_Shmem"])
                whole += 1024 * kilobytes["Pss"]
    return own, whole


def part(path: Path) -> str:
    """The table of a machine."""
    found = read(path, MODEL)
    rows = [row(name, found["bytes"], each) for name, each in found["commands"].items()] if found else []
    return f"\nIn `results/{path.parent.name}`:\n\n" + table(HEAD, rows) if rows else ""


def row(name: str, weights: float, took: dict[str, float]) -> str:
    """One command."""
    own, whole = took["own_bytes"], took["whole_bytes"]
    return (
        f"| `{name}` | {weights / 1e9:.2f} GB | {own / 1e9:.2f} GB | {whole / 1e9:.2f} GB "
        f"| {'yes' if whole <= MOST_BYTES else 'no'} | {took['seconds']:.0f} |"
    )


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
