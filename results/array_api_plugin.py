"""What pytest loads beside the array API standard's test suite, for `results/array_api.py`.

The suite reads elements one by one and decides by them, which tensors refuse: here, and here alone, `bool()`, `int()`
and `float()` of a tensor compute it. Element types that tensors do not have are names that stand for nothing. What
tensors refuse on purpose is not run. Each test that ends is a line of a record, and none is run twice for one record.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from array_api import ABSENT, RECORD, SECONDS

from autotune import tensor

NAME = "recorded"
# Why tests are not run, by what their names are like; the first that fits.
REASONS = {
    "linear algebra and Fourier transforms are extensions of the standard": (
        r"\[(linalg|fft)-|test_extension_func_signature|test_fft\.py|test_linalg\.py::test_(?!matmul|matrix_transpose"
        r"|tensordot|vecdot)|test_linalg\.py::test_matrix_(norm|power|rank)"
    ),
    "there are no complex numbers": (
        r"test_(conj|imag|real)\b|[-\[](conj|imag|real)\]|vecdot_conj|test_special_cases.*(conj|real|imag)\("
    ),
    "shapes would depend on elements": r"(?<!count_)nonzero|unique_|getitem_masking",
    "tensors are not written": r"setitem|test_asarray_arrays",
    "no control flow depends on elements: `bool()`, `int()`, `float()`": r"test_scalar_casting",
    "there is no sorting, and there are no sets": r"\bargsort\b|\bsort\b|test_argsort|test_sort\b|searchsorted|isin",
    "the suite draws whole numbers that float32 does not have": r"x_i\.is_integer\(\)\) -> x_i",
    "the bits of real numbers are not seen": r"nextafter",
}


class Absent:
    """An element type that tensors do not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"no {self.name}"


def reading(kind: Callable[[Any], Any]) -> Callable[[tensor.Tensor], Any]:
    """A conversion of a tensor of one element, which computes it."""
    return lambda self: kind(self.numpy().item())


def read_elements() -> None:
    """Let elements be read: by conversion, and by an index that names one, of the tensor that is computed whole."""
    take = tensor.Tensor.__getitem__

    def element(self: tensor.Tensor, key: object, /) -> tensor.Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != self.ndim or not all(isinstance(each, int) for each in keys):
            return take(self, key)
        self.numpy()
        found = take(self, key)
        found.numpy()
        return found

    conversions = {"__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": int}
    for name, kind in conversions.items():
        setattr(tensor.Tensor, name, reading(kind))
    tensor.Tensor.__getitem__ = element  # type: ignore[method-assign]
    # The suite multiplies by conj, of real numbers too.
    vars(tensor).update(conj=tensor.positive, **{name: Absent(name) for name in ABSENT})


def reason(name: str) -> str:
    """Why a test is not run; empty if it is."""
    return next((why for why, like in REASONS.items() if re.search(like, name)), "")


class Recorder:
    """Runs what a record lacks, as long as there is time, and records how each test ends.

    Args:
        path: Record, a line of JSON for each test that began and for each that ended.
        seconds: Time within which tests are begun.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._end = path, time.monotonic() + seconds

    def write(self, name: str, end: str, message: str = "") -> None:
        """Append a line."""
        with self._path.open("a") as file:
            file.write(json.dumps({"test": name, "end": end, "said": message[:300]}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Tell hypothesis to leave the first example that fails as it is: each is compiled."""
        found = hypothesis.settings.get_profile("array-api-tests")
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        every = list(hypothesis.HealthCheck)
        hypothesis.settings.register_profile(
            "recorded", found, phases=phases, database=None, suppress_health_check=every
        )
        hypothesis.settings.load_profile("recorded")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is recorded; a test that began and never ended took the process with it."""
        ends = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            one = json.loads(line)
            ends[one["test"]] = one["end"]
        for name in (name for name, end in ends.items() if end == "began"):
            self.write(name, "failed", "the process ended")
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in ends])
        items[:] = [item for item in items if item.nodeid not in ends]
        for item in items:
            if why := reason(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=why))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self.write(nodeid, "began")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended."""
        if report.skipped:
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.write(
                report.nodeid,
                "skipped",
                reason(report.nodeid) or f"the suite says: {message.removeprefix('Skipped: ')}",
            )
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.write(report.nodeid, "failed", str(report.longrepr) if crash is None else crash.message)
        elif report.when == "call":
            self.write(report.nodeid, "passed")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Begin no test behind the end of the time."""
        yield
        if time.monotonic() > self._end:
            item.session.shouldstop = "time is up"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Take part in what pytest does, before the suite is imported."""
    del parser
    read_elements()
    pluginmanager.register(Recorder(Path(os.environ[RECORD]), float(os.environ[SECONDS])))
