"""llama.cpp as a comparator: an imported GGUF model's own file, by the library's own kernels.

Its package builds from source, for the processor that it is installed on. It multiplies activations rounded to 8 bits,
and keeps keys and values in f16: what a decode finds in its caches is put into the library's, rounded so.
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

F16 = 1  # GGML's number of the type that caches have
NEIGHBOURS = 0  # llama.cpp's number of rotary positions that turn neighbours of a head, where we turn halves
COUNTS, HEAD = 8, 12  # bytes before all rows of a state's caches, and before those of a layer


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp, as the comparator ``llama.cpp``.

    Attributes:
        repacks: Whether it may store weights anew for the processor's matrix unit or vectors, as it does by default.
    """

    repacks: bool = True
    name: str = "llama.cpp"
    modules: tuple[str, ...] = ("llama_cpp",)
    extra: str = "llama-cpp"
    rounded_to: str = "int8"

    def version(self) -> str:
        """Version of the package, and what its kernels use of this processor."""
        import llama_cpp

        text = llama_cpp.llama_print_system_info().decode(errors="replace")
        used = re.findall(r"(\w+) = 1\b", text)
        return f"llama-cpp-python {version('llama-cpp-python')}, {', '.join(used)}"

    def variants(self) -> tuple[LibraryVariant, ...]:
        """With weights that it stores anew, and as the file has them: neither is always the faster one."""
        return LibraryVariant("repacked", replace(self, repacks=True)), LibraryVariant(
            "as stored", replace(self, repacks=False)
        )

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Load the model's file, and put what the caches hold into the library's.

        Raises:
            ComparatorError: The payload is no function of a GGUF model, its file is gone, or the library refuses it.
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
        how = f"weights {'repacked' if self.repacks else 'as stored'}, caches in f16"
        return Prepared(call, lambda _: (model.logits()[None].copy(),), how)


LLAMA_CPP = LlamaCpp()


class LlamaModel:
    """A model that llama.cpp has loaded, its caches, and a thread for each core of the process."""

    def __init__(self, path: str, rows: int, *, repacks: bool = True) -> None:
        """Load a file; caches have so many rows, and weights may be stored anew.

        Raises:
            ComparatorError: The library cannot load it.
        """
        import llama_cpp

        # It configures a matrix unit once a thread, and dies if another program does so later: a thread of its own.
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
        """A call that reads tokens behind so many rows of the caches, and computes the logits behind the last."""
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
            return ids, batch  # which must live as long as the call does

        return call

    def read(self, tokens: Sequence[int] | Array, filled: int) -> Array:
        """Logits ``(V)`` behind tokens that follow so many rows of the caches."""
        self.bind(tokens, filled)()
        return self.logits().copy()

    def logits(self) -> Array:
        """The last logits ``(V)``; the next call writes others over them."""
        found = self._library.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(found, (self.vocab,))

    def fill(self, keys: Array, values: Array, count: int) -> None:
        """Put the first rows of caches ``(L, G, P, D)`` into the library's, in f16.

        Raises:
            ComparatorError: The library keeps its state in a form that is not known here.
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
    """Keys ``(.., D)`` whose halves are paired, as neighbours that are."""
    apart = keys.reshape(*keys.shape[:-1], 2, -1)
    return np.ascontiguousarray(apart.swapaxes(-1, -2)).reshape(keys.shape)


def write_caches(state: Array, keys: Array, values: Array) -> None:
    """Write caches ``(L, G, rows, D)`` over those in a state of llama.cpp, which are the last of it.

    It has the caches of all layers, keys first: a type, the bytes of a row, and rows of all heads; where values are
    transposed, a type, the bytes of an element, the number of columns, and columns.

    Raises:
        ComparatorError: The text has another form.
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
    """What is raised of a state that is not known."""
    return ComparatorError("llama.cpp must keep caches in f16, a layer after the other, it does not; install 0.3")
