"""Pages: huge where the kernel gives them and the run does not want small ones; large arrays begin one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tuning_support import MACHINES

from autotune.compiler.tasks.partition import partition
from autotune.core.errors import MachineError
from autotune.core.host.pages import HUGE_BYTES, VARIABLE, empty_bytes, gives_huge_pages, pages_of_run
from autotune.registry import family_for, load_payload
from autotune.store.store import Store
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.worker.bench.testbench import Testbench

SMAPS = Path("/proc/self/smaps")
ADVICE = {"huge": "hg", "small": "nh"}


@pytest.mark.parametrize(
    ("says", "asked", "pages"),
    [
        ("always [madvise] never", None, "huge"),
        ("[always] madvise never", "huge", "huge"),
        ("[always] madvise never", "small", "small"),
        ("always madvise [never]", "huge", "small"),
        (None, None, "small"),
    ],
)
def test_pages_are_what_the_run_wants_where_the_kernel_gives_them(tmp_path, monkeypatch, says, asked, pages):
    monkeypatch.delenv(VARIABLE, raising=False)
    if asked is not None:
        monkeypatch.setenv(VARIABLE, asked)
    enabled = tmp_path / "enabled"
    if says is not None:
        enabled.write_text(says + "\n")
    assert pages_of_run(enabled) == pages


def test_unknown_pages_are_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "giant")
    with pytest.raises(MachineError, match="must be huge or small, got 'giant'"):
        pages_of_run()


def advice_of(array):
    """What the kernel was told about the memory of an array: the flags of its mapping."""
    address, mine = array.ctypes.data, False
    for line in SMAPS.read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, stop = (int(part, 16) for part in first.split("-"))
            mine = start <= address < stop
        elif mine and first == "VmFlags:":
            return line.split()[1:]
    return []


@pytest.mark.skipif(not (SMAPS.exists() and gives_huge_pages()), reason="this kernel gives no huge pages")
@pytest.mark.parametrize("pages", ADVICE)
def test_large_array_begins_a_huge_page_and_the_kernel_is_told_what_it_shall_lie_on(pages):
    array = empty_bytes(3 * HUGE_BYTES + 5, pages)
    array[...] = 7
    assert array.size >= 3 * HUGE_BYTES + 5
    assert array.ctypes.data % HUGE_BYTES == 0
    assert ADVICE[pages] in advice_of(array)
    assert not set(ADVICE.values()) - {ADVICE[pages]} & set(advice_of(array))


@pytest.mark.skipif(not (SMAPS.exists() and gives_huge_pages()), reason="this kernel gives no huge pages")
@pytest.mark.parametrize("pages", ADVICE)
def test_arrays_that_programs_are_timed_with_lie_on_the_pages_of_the_run(pages):
    payload = load_payload("matmul,m=2,n=1024,k=1024,constant_b=1")
    weight = Testbench(payload, 0, pages).arrays[1]
    assert ADVICE[pages] in advice_of(weight)
    assert np.array_equal(weight, payload.make_inputs(0)["b"])


def test_a_machine_is_the_same_on_other_pages_but_its_trials_are_not_mixed(tmp_path):
    (task,) = partition(load_payload("matmul,m=8,n=8,k=8")).tasks
    huge = MACHINES["avx2"]
    small = replace(huge, pages="small")
    assert small.fingerprint == huge.fingerprint
    with Store.open(tmp_path / "store") as store:
        opened = [
            TaskSearch.open(task, family_for(task), SearchSetting(machine, store, "matmul", "tpe", 0))
            for machine in (huge, small)
        ]
        first, second = (search.sweep.about["identity"] for search in opened)
    assert second == first | {"pages": "small"}


def test_what_no_memory_holds_is_refused_with_its_size():
    with pytest.raises(MemoryError, match=r"an array must fit what is left of memory, .* GiB, it takes 1\.04858e\+06"):
        empty_bytes(1 << 50, "small")
