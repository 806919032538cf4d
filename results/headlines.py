"""The README's one table, of one machine, from what `comparisons.py` and `generation.py` recorded: `render` writes it.

Models first, then the kernels in them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocks import ROOT, Block, load, table
from comparisons import advantage, share

from autotune.core.console import duration

README = ROOT.parent / "README.md"
MACHINE = "icelake-3c3bf114"  # the machine whose figures were recorded last
LIBRARIES = ("onnxruntime", "torch", "iree")
HEAD = ("one thread", "autotune", "of the roof", "ONNX Runtime", "PyTorch", "IREE", "over ONNX Runtime")


@dataclass(frozen=True)
class Headline:
    """One row of the table.

    Attributes:
        name: Name that readers know the payload by.
        file: File that holds the comparison, below the machine's folder.
        entry: Entry of the file; empty where it is the comparison itself.
    """

    name: str
    file: str
    entry: str = ""

    def read(self, folder: Path) -> dict[str, Any]:
        """The comparison that a machine recorded."""
        found = load(folder / self.file)
        return dict(found[self.entry]) if self.entry else found


HEADLINES = (
    Headline("GPT-2, 128 tokens", "comparisons/gpt2.json"),
    Headline("GPT-2, the token after 127", "generation.json", "gpt2-decode"),
    Headline("nano GPT, 32 tokens", "comparisons/nano.json"),
    Headline("matmul 512 x 512 x 512, constant B", "comparisons/matmul_m512_n512_k512_constant_b1.json"),
    Headline("matmul 128 x 3072 x 768, constant B", "comparisons/matmul_m128_n3072_k768_constant_b1.json"),
    Headline("causal attention, 12 x 128 x 64", "comparisons/attention_heads12_seq128_d64_causal1.json"),
    Headline("attention, 4096 x 64", "comparisons/attention_heads1_seq4096_d64.json"),
    Headline("layer norm, 1024 x 3072", "comparisons/layer_norm_rows1024_cols3072.json"),
    Headline("softmax, 1024 x 3072", "comparisons/softmax_rows1024_cols3072.json"),
)


def block(folder: Path) -> str:
    """The table, and what it was measured on."""
    found = {headline: headline.read(folder) for headline in HEADLINES}
    first = next(iter(found.values()))
    machine, roofs = first["machine"], first["roofs"]
    return (
        f"\n{table(HEAD, [row(headline, data) for headline, data in found.items()])}\n"
        f"One core of an {machine['cpu'].replace('(R)', '')} ({machine['isa']}, {roofs['flops'] / 1e9:.0f} GFLOP/s, "
        f"{roofs['dram_bytes'] / 1e9:.0f} GB/s), f32, outputs verified, programs interleaved, 95 % intervals. "
        "The roof is the peak rate of multiply-adds, or the bandwidth of reading or copying as many bytes.\n"
    )


def row(headline: Headline, data: dict[str, Any]) -> str:
    """One line of the table."""
    rows = {r["name"]: r for r in data["rows"]}
    times = [duration(rows.get(name, {}).get("seconds")) for name in LIBRARIES]
    cells = [headline.name, f"**{duration(rows['best']['seconds'])}**", share(rows), *times, advantage(rows)]
    return "| " + " | ".join(cells) + " |"


BLOCK = Block("headlines", block, pattern=MACHINE, page=README)


if __name__ == "__main__":
    BLOCK.serve()
