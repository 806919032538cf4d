"""What it takes to look at bundles step by step, and how near its expected costs are, in docs/results.md."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from blocks import ROOT, Block, keep, load, table

import autotune as at
from autotune.core.host.machine import this_machine

BUNDLES = ("nano", "gpt2")
HEAD = ("bundle", "steps", "to record", "memory", "page", "to open", "a step on it")
PAYLOAD, SCRIPTS = "matmul,m=64,n=64,k=64", ("mine.mlir", "better.mlir")  # those of docs/how-to/debug.md
SCRIPT_HEAD = ("script", "expected share of the roof", "measured", "over the naive lowering")
WALK = """
() => {
  const begun = performance.now(), count = document.getElementById("count"), steps = 20;
  for (let i = 0; i < steps; i++) document.getElementById("next").click();
  return [Number(count.textContent.split(" of ")[1]), (performance.now() - begun) / steps / 1000];
}
"""


def measure() -> None:
    """Record the steps of each bundle, open the page five times in Chromium, and time two scripts; three minutes."""
    with tempfile.TemporaryDirectory() as folder:
        for name in BUNDLES:
            page = Path(folder, "page.html")
            seconds, peak = watched(
                ["autotune", "debug", str(next(ROOT.glob(f"*/bundles/{name}"))), "--page", str(page)]
            )
            keep("debug", name, {"seconds": seconds, "peak": peak, "bytes": page.stat().st_size} | opened(page))
        for name in SCRIPTS:
            keep("debug", name, timed(Path(folder), name))


def watched(command: list[str]) -> tuple[float, int]:
    """Seconds that a command takes, and the most bytes that its processes hold together."""
    begun, peak = time.perf_counter(), 0
    with psutil.Popen(command) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(resident, [process, *process.children(recursive=True)])))
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - begun, peak


def resident(process: psutil.Process) -> int:
    """Bytes of memory of a process; none of one that has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def opened(page: Path) -> dict[str, object]:
    """Steps of a page, and the seconds that it takes to open, and to go a step, five times each."""
    from playwright.sync_api import sync_playwright

    loads, steps, count = list[float](), list[float](), 0
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(5):
            view = chromium.new_page()
            begun = time.perf_counter()
            view.goto(page.as_uri())  # its script runs before the page is loaded
            view.evaluate("() => new Promise(requestAnimationFrame)")
            loads.append(time.perf_counter() - begun)
            count, seconds = view.evaluate(WALK)
            steps.append(seconds)
            view.close()
        chromium.close()
    return {"steps": count, "open_seconds": loads, "step_seconds": steps}


def timed(folder: Path, name: str) -> dict[str, object]:
    """What the debugger expects of a script of the page, and what it takes."""
    page = ROOT.parent / "docs" / "how-to" / "debug.md"
    found = re.search(rf'^```mlir title="{re.escape(name)}"\n(.*?)^```$', page.read_text(), re.M | re.S)
    if found is None:
        raise SystemExit(f"{page} must show {name}")
    (folder / name).write_text(found[1])
    recording = at.debug(PAYLOAD, folder / name, lowering=True)
    nest = max(recording.nests_after(len(recording.steps)), key=lambda nest: nest.flops)
    command = ["autotune", "tune", PAYLOAD, "--schedule", name, "--trials", "1", "--json"]
    result = json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {
        "expected": nest.share(this_machine()),
        "bound": nest.bound(this_machine()),
        "measured": result["best"]["roof_fraction"],
        "speedup": result["speedup"],
        "interval": result["speedup_interval"],
    }


def part(path: Path) -> str:
    """A machine's bundles, and scripts."""
    found = load(path)
    bundles = [row(name, each) for name, each in found.items() if "open_seconds" in each]
    scripts = [script_row(name, each) for name, each in found.items() if "expected" in each]
    return f"\nIn `results/{path.parent.name}`:\n\n{table(HEAD, bundles)}\n{table(SCRIPT_HEAD, scripts)}\n"


def row(name: str, found: dict[str, Any]) -> str:
    """One line of the table of bundles."""
    return (
        f"| {name} | {found['steps']} | {found['seconds']:.1f} s | {found['peak'] / 2**20:.0f} MiB | "
        f"{found['bytes'] / 1e6:.2f} MB | {median(found['open_seconds']):.2f} s | "
        f"{1e3 * median(found['step_seconds']):.0f} ms |"
    )


def script_row(name: str, found: dict[str, Any]) -> str:
    """One line of the table of scripts."""
    low, high = found["interval"]
    return (
        f"| {name} | {found['expected']:.0%}, bound by {found['bound']} | {found['measured']:.0%} | "
        f"{found['speedup']:.2f} x [{low:.2f}, {high:.2f}] |"
    )


BLOCK = Block("debug", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
