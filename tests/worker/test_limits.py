"""What does not fit a worker's memory is refused before anything is measured, in one line; what fits is not."""

from types import SimpleNamespace

import pytest

from autotune.core.errors import PayloadError
from autotune.core.payload import Argument, Payload
from autotune.registry import load_payload
from autotune.worker.isolation import limits
from autotune.worker.isolation.limits import check_memory, needed_bytes


@pytest.fixture
def memory_of(monkeypatch):
    """Have a machine of so much memory, of which one worker gets all."""

    def have(count):
        monkeypatch.setattr(limits, "MEMORY_SHARE", 1.0)
        monkeypatch.setattr(limits.psutil, "virtual_memory", lambda: SimpleNamespace(total=count))

    return have


def test_arrays_for_verification_count():
    payload = load_payload("matmul,m=100,n=100,k=2")
    elements = 100 * 100
    assert needed_bytes(payload) == payload.bytes + (4 + 8 + 2 * 8) * elements


def test_what_does_not_fit_with_the_arrays_it_is_verified_with_is_refused(memory_of):
    payload = load_payload("matmul,m=100,n=100,k=2")
    memory_of(needed_bytes(payload))
    check_memory(payload)
    memory_of(needed_bytes(payload) - 1)
    assert payload.bytes < limits.worker_memory()
    with pytest.raises(PayloadError, match=r"they take .* GiB; choose smaller sizes$"):
        check_memory(payload)


def test_sizes_beyond_what_words_count_are_refused():
    argument = Argument("out", "output", (1 << 33, 1 << 33), "f32")
    with pytest.raises(PayloadError, match=r"they take .* GiB; choose smaller sizes$"):
        check_memory(Payload("large", "", "f", (argument,)))


def test_several_jobs_share_the_memory(memory_of):
    payload = load_payload("matmul,m=100,n=100,k=2")
    memory_of(2 * needed_bytes(payload) - 1)
    check_memory(payload)
    with pytest.raises(PayloadError, match=r"choose fewer --jobs$"):
        check_memory(payload, 2)
    memory_of(needed_bytes(payload) - 1)
    with pytest.raises(PayloadError, match=r"choose smaller sizes$"):  # fewer jobs would not do
        check_memory(payload, 2)


def test_tune_refuses_at_once_what_does_not_fit(memory_of, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory_of(100 << 20)
    line = refused("tune", "matmul,m=2000,n=2000,k=2", words="must fit the memory of a worker")
    assert "choose smaller sizes" in line
