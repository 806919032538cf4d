"""Comparator llama.cpp: runs an imported GGUF model's own file with the library's kernels.

The package is built from source for the processor that it is installed on. It multiplies activations rounded to 8 bits
and has keys and values in f16: before a decode, the payload's caches are rounded and copied into the library's.
"""

import ctypes
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from autotune.core.errors import ComparatorError
from autotune.core.host.cores import own_cores
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import LibraryVariant, Prepared

F16 = 1  # GGML's type id of the caches
NEIGHBOURS = 0  # llama.cpp's rope type that rotates neighbours of a head, where our models rotate halves
COUNTS, HEAD = 8, 12  # header bytes before the caches of all layers in a state, and before those of a layer


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp, as the comparator ``llama.cpp``.

    Attributes:
        repacks: Whether it may repack weights for the processor's matrix unit or vectors, its default.
    """

    repacks: bool = True
    name: str = "llama.cpp"
    modules: tuple[str, ...] = ("llama_cpp",)
    extra: str = "llama-cpp"
    rounded_to: str = "int8"

    def version(self) -> str:
        """Return the version of the package, and the CPU features its kernels use."""
        import llama_cpp

        text = llama_cpp.llama_print_system_info().decode(errors="replace")
        used = re.findall(r"(\w+) = 1\b", text)
        return f"llama-cpp-python {version('llama-cpp-python')}, {', '.join(used)}"

    def variants(self) -> tuple[LibraryVariant, ...]:
        """Return the variants with repacked weights and with those as in the file: neither is always faster."""
        return LibraryVariant("repacked", replace(self, repacks=True)), LibraryVariant(
            "as stored", replace(self, repacks=False)
        )

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Load the model's file and copy the payload's caches into the library's.

        Raises:
            ComparatorError: The payload is not a function of a GGUF model, its file is missing, or the library rejects
                it.
        """
        if Path(payload.model).suffix != ".gguf":
            raise ComparatorError(f"llama.cpp must have the file of a GGUF model, {payload.name} has none; import one")
        model = LlamaModel(payload.model, rows=inputs["keys"].shape[-2], repacks=self.repacks)
        if "position" in inputs:
            filled, tokens = int(inputs["position"][0]), inputs["tokens"]
            model.fill(inputs["keys"], inputs["values"], filled)
        else:
            filled, tokens = 0, inputs["tokens"][: int(inputs["length"][0])]
        call = model.bind(tokens, filled)
        conditions = f"weights {'repacked' if self.repacks else 'as stored'}, caches in f16"
        return Prepared(call, lambda _: (model.logits()[None].copy(),), conditions)


LLAMA_CPP = LlamaCpp()


class LlamaModel:
    """A model loaded by llama.cpp, with its caches and one thread per core of the process."""

    def __init__(self, path: str, rows: int, *, repacks: bool = True) -> None:
        """Load a file; the caches have `rows` rows, and weights are repacked if `repacks`.

        Raises:
            ComparatorError: The library cannot load it.
        """
        import llama_cpp

        # It configures a matrix unit once per thread, and crashes if another program does so later: dedicate a thread.
        self._thread = ThreadPoolExecutor(1)
        self._library: Any = llama_cpp
        self._silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._silent, None)
        llama_cpp.llama_backend_init()
        loading = llama_cpp.llama_model_default_params()
        loading.use_extra_bufts = repacks
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), loading)
        if not self._model:
            raise ComparatorError(f"llama.cpp must load {path}, it refuses; convert it again")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch = rows, max(rows, options.n_batch)
        options.n_threads = options.n_threads_batch = own_cores()
        options.no_perf = True
        self._context = llama_cpp.llama_init_from_model(self._model, options)
        if not self._context:
            raise ComparatorError(f"llama.cpp must have memory for {rows} positions, it has not; import fewer")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))

    def bind(self, tokens: Sequence[int] | Array, filled: int) -> "Any":  # noqa: ANN401 - a closure
        """Return a call that reads tokens after `filled` rows of the caches and computes the logits after the last."""
        library, context, memory = self._library, self._context, self._memory
        ids = (ctypes.c_int32 * len(tokens))(*map(int, tokens))
        batch = library.llama_batch_get_one(ids, len(tokens))

        def decode() -> int:
            library.llama_memory_seq_rm(memory, 0, filled, -1)
            code: int = library.llama_decode(context, batch)
            library.llama_synchronize(context)
            return code

        def call() -> tuple[Any, Any]:
            if code := self._thread.submit(decode).result():
                raise ComparatorError(f"llama.cpp must compute {len(tokens)} tokens, it fails with code {code}")
            return ids, batch  # kept alive as long as the call

        return call

    def read(self, tokens: Sequence[int] | Array, filled: int) -> Array:
        """Return the logits ``(V)`` after tokens that follow `filled` rows of the caches."""
        self.bind(tokens, filled)()
        return self.logits().copy()

    def logits(self) -> Array:
        """Return the last logits ``(V)``; the next call overwrites them."""
        pointer = self._library.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, (self.vocab,))

    def fill(self, keys: Array, values: Array, count: int) -> None:
        """Copy the first rows of caches ``(L, G, P, D)`` into the library's, in f16.

        Raises:
            ComparatorError: The library's state has an unknown format.
        """
        if not count:
            return
        library = self._library
        self.read(np.zeros(count, np.int32), 0)
        state = np.empty(library.llama_state_seq_get_size(self._context, 0), np.uint8)
        pointer = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        library.llama_state_seq_get_data(self._context, pointer, state.size, 0)
        if library.llama_model_rope_type(self._model) == NEIGHBOURS:
            keys = in_neighbours(keys)
        write_caches(state, keys[:, :, :count], values[:, :, :count])
        if library.llama_state_seq_set_data(self._context, pointer, state.size, 0) != state.size:
            raise ComparatorError("llama.cpp must take a state as it gives it, it does not; install another version")


def in_neighbours(keys: Array) -> Array:
    """Reorder keys ``(.., D)`` from paired halves to paired neighbours."""
    halves = keys.reshape(*keys.shape[:-1], 2, -1)
    return np.ascontiguousarray(halves.swapaxes(-1, -2)).reshape(keys.shape)


def write_caches(state: Array, keys: Array, values: Array) -> None:
    """Write caches ``(L, G, rows, D)`` over those at the end of a llama.cpp state.

    The state has the caches of all layers, keys first: a type id, the bytes per row, and rows of all heads; if values
    are transposed, a type id, the bytes per element, the number of columns, and columns.

    Raises:
        ComparatorError: The state has another format.
    """
    layers, heads, rows, depth = keys.shape
    part = HEAD + rows * heads * depth * 2
    begin = state.size - COUNTS - 2 * layers * part
    if begin < 0:
        raise other_form()
    transposed, counted = state[begin : begin + COUNTS].view(np.uint32)
    if counted != layers or transposed > 1:
        raise other_form()
    for number, cache in enumerate((*keys, *values)):
        first = begin + COUNTS + number * part
        if state[first : first + 4].view(np.int32)[0] != F16:
            raise other_form()
        flat = cache.swapaxes(0, 1).reshape(rows, heads * depth)
        if transposed and number >= layers:
            flat = flat.T
        state[first + HEAD : first + part].view(np.float16)[...] = flat.reshape(-1)


def other_form() -> ComparatorError:
    """Return the error for a state of unknown format."""
    return ComparatorError("llama.cpp must keep caches in f16, a layer after the other, it does not; install 0.3")
