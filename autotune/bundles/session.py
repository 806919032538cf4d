"""Session of compiled payloads that are called: functions of one model share weights and states by name."""

from collections.abc import Mapping
from pathlib import Path

from autotune.bundles.call import compile_candidate
from autotune.bundles.candidates import choose_candidate
from autotune.bundles.contexts import shape_of
from autotune.compiler.lowering.array_calls import ArrayCall
from autotune.compiler.lowering.program import CompiledProgram
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.arrays import Accepted
from autotune.core.errors import GenerationError, PayloadError
from autotune.core.host.machine import this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.listener import SILENT, Listener
from autotune.core.options import check_seed
from autotune.core.payload import Argument, Array, Payload
from autotune.store.folders import home
from autotune.tuning.tunable import payload as payload_of


class Session:
    """Compiler of payloads with the best known schedules, in this process; owns their weights and states.

    Args:
        bundles: Folder of bundles; the newest one of a payload is used, else default schedules. By default the folder
            that `tune` writes to, ``tuned/MACHINE/bundles``.
        listener: Listener for notes to the user.
        seed: Seed of weights that are not loaded from a file.
    """

    def __init__(self, bundles: str | Path | None = None, listener: Listener = SILENT, seed: int = 0) -> None:
        check_seed(seed)
        self._bundles = Path(bundles) if bundles is not None else home() / "bundles"
        self._listener, self._seed = listener, seed
        self._machine = this_machine()
        self._stored: dict[str, Array] = {}
        self._panels: dict[tuple[str, int, bool, tuple[int, ...], str], Array] = {}
        self._functions: dict[tuple[str, tuple[Argument, ...]], SessionFunction] = {}

    def load(self, source: str | Path | Payload) -> "SessionFunction":
        """Compile a payload, or return the function that it was compiled to before.

        States are zero at first; a weight or state that the session has under the same name is shared.

        Args:
            source: A spec, a path to an ``.mlir`` file, or a payload.

        Raises:
            PayloadError: There is no such payload, or a weight's or state's shape differs from the session's.
            CompileError: The payload cannot be compiled.
        """
        payload = payload_of(source)
        key = (payload.sha256, payload.arguments)
        if key not in self._functions:
            self._functions[key] = self._compile(payload)
        return self._functions[key]

    def _compile(self, payload: Payload) -> "SessionFunction":
        candidate = choose_candidate(payload, self._bundles, self._machine, self._listener)
        program = compile_candidate(payload, candidate)
        self._make_stored(payload)
        outputs = {argument.name: self._empty(argument) for argument in payload.outputs}
        inputs = {a.name: shape_of(a) for a in payload.arguments if a.role == "input"}
        have = {**self._stored, **outputs, **inputs}
        arrays = {argument.name: have[argument.name] for argument in payload.arguments}
        panels = [self._packed(payload, weight) for weight in program.weights]
        return SessionFunction(payload, program, arrays, panels)

    @property
    def kept(self) -> Mapping[str, Array]:
        """Weights and states of the session, by name."""
        return self._stored

    def _make_stored(self, payload: Payload) -> None:
        """Create the weights and states that the session does not have yet."""
        for argument in payload.arguments:
            known = self._stored.get(argument.name)
            if argument.role in ("weight", "state") and known is not None and known.shape != argument.shape:
                raise PayloadError(
                    f"{argument.name} must be {known.shape} as in this session, got {argument.shape}; open another"
                )
        missing = [a for a in payload.arguments if a.role == "weight" and a.name not in self._stored]
        values = payload.make_inputs(self._seed) if missing else {}
        for argument in missing:
            self._stored[argument.name] = self._empty(argument)
            self._stored[argument.name][...] = values[argument.name]
        for argument in payload.arguments:
            if argument.role == "state":
                self._stored.setdefault(argument.name, self._zeros(argument))

    def _packed(self, payload: Payload, weight: PanelWeight) -> Array:
        """Return a weight in panels, packed once for all functions that use this layout."""
        source = payload.arguments[weight.source]
        key = (source.name, weight.columns, weight.transposed, weight.shape, weight.precision)
        if key not in self._panels:
            self._panels[key] = self._empty(weight.argument(source))
            self._panels[key][...] = weight.pack(self._stored[source.name])
        return self._panels[key]

    def _empty(self, argument: Argument) -> Array:
        return aligned_empty(argument, self._machine.pages)

    def _zeros(self, argument: Argument) -> Array:
        array = self._empty(argument)
        array.fill(0)
        return array


class SessionFunction:
    """A compiled payload of a session."""

    def __init__(
        self, payload: Payload, program: CompiledProgram, arrays: dict[str, Array], panels: list[Array]
    ) -> None:
        self.payload = payload
        inputs = [Accepted.of(argument) for argument in payload.arguments if argument.role == "input"]
        self._inputs = tuple(each.name for each in inputs)
        self._names = frozenset(self._inputs)
        self._outputs = tuple(arrays[argument.name] for argument in payload.outputs)
        bound = program.bind([*arrays.values(), *panels])
        slots = dict(zip(arrays, bound.slots, strict=False))
        self._call = ArrayCall(bound, [slots[name] for name in self._inputs], inputs)

    def __call__(self, /, **inputs: Array) -> tuple[Array, ...]:
        """Run the function once.

        Returns:
            Outputs of the call, which the next call overwrites.

        Raises:
            GenerationError: An input is missing, unknown, of the wrong shape, or out of range; nothing is changed then.
        """
        if inputs.keys() != self._names:
            raise GenerationError(
                f"inputs of {self.payload.name} must be {', '.join(self._inputs)}; got {', '.join(inputs) or 'none'}"
            )
        try:
            self._call.run(*[inputs[name] for name in self._inputs])
        except PayloadError as error:
            raise GenerationError(str(error)) from error
        return self._outputs
