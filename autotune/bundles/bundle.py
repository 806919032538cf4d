"""`Bundle`: a winner on disk as an object: look at it, replay it, check it for regressions, call it."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.bundles.call import PayloadFunction, compile_bundle
from autotune.bundles.candidates import differences_now
from autotune.bundles.emit import emit_bundle
from autotune.bundles.finding import RegressionFinding
from autotune.bundles.regress import regress
from autotune.bundles.regress_options import READ_ONLY, RegressOptions
from autotune.bundles.replay import Replay, replay
from autotune.core.host.machine import this_machine
from autotune.core.html import html_table
from autotune.core.payload import Argument, Array, Payload
from autotune.core.stats import Interval
from autotune.core.verb_options import options_from, with_keywords
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.manifest import Manifest
from autotune.store.records import TaskRecord
from autotune.tuning.tunable import payload as payload_of


class Bundle:
    """A winner, as `tune` recorded it.

    Args:
        files: Files of the bundle, read and checked; `Bundle.read` reads them from a folder.
        named: What it computes, where the user named that.
    """

    def __init__(self, files: BundleFiles, named: Payload | None = None) -> None:
        self._files, self._named = files, named

    @classmethod
    def read(cls, folder: str | Path, payload: str | Path | Payload | None = None) -> "Bundle":
        """Read a bundle; every hash, number and MLIR file is checked, nothing is compiled.

        Args:
            folder: Folder of the bundle.
            payload: File or folder of what it computes, where you did not name it before.

        Raises:
            BundleError: The bundle is incomplete, edited, of another format, or asks for what no bundle should.
            PayloadError: There is no such payload.
        """
        named = payload_of(payload) if payload is not None else None
        return cls(read_bundle(Path(folder), named), named)

    def __repr__(self) -> str:
        speedup = f", {self.speedup.estimate:.4g}x over {self.manifest.baseline.name}" if self.speedup else ""
        return f"<Bundle {self.payload.name} at {self.folder}{speedup}>"

    def _repr_html_(self) -> str:
        speedup = [("speed-up over " + self.manifest.baseline.name, self.speedup)] if self.speedup else []
        rows = [
            ("payload", self.payload.name),
            ("folder", self.folder),
            *speedup,
            ("machine", self.manifest.machine.cpu),
        ]
        return html_table("bundle", (), rows)

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._files.folder

    @property
    def payload(self) -> Payload:
        """What it computes."""
        return self._files.payload

    @property
    def manifest(self) -> Manifest:
        """All that was recorded with it."""
        return self._files.manifest

    @property
    def script(self) -> str:
        """The transform script of the whole payload, as plain transform dialect."""
        return self._files.script

    @property
    def tasks(self) -> Mapping[str, TaskRecord]:
        """What is recorded of every task, by tag: family, config, seconds, how often a call runs it."""
        return self.manifest.tasks

    @property
    def speedup(self) -> Interval | None:
        """Baseline over winner as recorded, with its 95 % interval; `None` without a baseline."""
        return self.manifest.speedup

    @property
    def differences(self) -> tuple[str, ...]:
        """What is not as it was when it was recorded, and what that means, a sentence each."""
        return differences_now(self._files, this_machine())

    def replay(self, timeout: float | None = None, *, emulate: bool = False) -> Replay:
        """Build it again, verify it, and time it beside its baseline, in isolated processes; takes seconds to minutes.

        Args:
            timeout: Seconds that one process may take; by default as long as what is recorded lets expect.
            emulate: Emulate tiles of a matrix unit that this processor lacks: right, and slow.

        Returns:
            Among others ``verdict``: ``holds``, ``weaker``, ``stronger``, ``wrong`` or ``unknown``.
        """
        return replay(self.folder, timeout, named=self._named, emulate=emulate)

    @with_keywords(READ_ONLY)
    def regress(self, *, quick: bool = True, **options: Any) -> RegressionFinding:  # noqa: ANN401 - of RegressOptions
        """Measure it again and compare with what is recorded; nothing is written.

        Args:
            quick: End within two minutes, if need be inconclusive.
            **options: Options of ``autotune regress`` that change how it is measured, such as ``factor=1.2``.

        Raises:
            OptionError: An option is out of its range.
        """
        (finding,) = regress(
            [self.folder], options_from(RegressOptions, READ_ONLY, {"quick": quick, **options}, "regress")
        )
        return finding

    def emit(self, folder: str | Path, kind: str = "object") -> list[Path]:
        """Write its program, compiled for this host, and a C header.

        Args:
            folder: Folder to write to; made if it is not there.
            kind: ``object``, ``llvm`` or ``asm``.

        Returns:
            What was written.
        """
        return emit_bundle(self.folder, kind, Path(folder))

    @cached_property
    def function(self) -> PayloadFunction:
        """The compiled program, in this process, which therefore trusts the bundle."""
        return compile_bundle(self._files)

    def keep(self, /, **weights: Array) -> None:
        """Hold copies of weights: later calls need not give them, and neither look at them nor copy them.

        Raises:
            PayloadError: One is none of the payload's weights, or of another shape or kind.
        """
        self.function.keep(**weights)

    def __call__(self, /, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
        """Compute it once, in this process, on NumPy arrays; the first call compiles.

        Args:
            *arrays: Inputs and weights in the payload's order; states may follow, else they begin as zeros.
            **named: The same by name.

        Returns:
            A new array for its output; a dictionary by name where it writes several, states included.

        Raises:
            PayloadError: An array is missing, unknown, of another shape or kind, or out of range.
        """
        return self.function(*arrays, **named)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Names, roles, shapes and element types of what it is called with, and of what it writes."""
        return self.payload.arguments
