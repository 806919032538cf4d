"""`Bundle`: a winner on disk, to be inspected, replayed, checked for regressions, and called."""

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
    """A winner that `tune` recorded.

    Args:
        files: Files of the bundle, read and checked; `Bundle.read` reads them from a folder.
        named: Payload that the user names for the bundle; `None` for the one that it records.
    """

    def __init__(self, files: BundleFiles, named: Payload | None = None) -> None:
        self._files, self._named = files, named

    @classmethod
    def read(cls, folder: str | Path, payload: str | Path | Payload | None = None) -> "Bundle":
        """Read a bundle and check every hash, number and MLIR file; nothing is compiled.

        Args:
            folder: Folder of the bundle.
            payload: Payload of the bundle, or its file or folder, if it was not opened on this account before.

        Raises:
            BundleError: The bundle is incomplete, edited, of another format, or contains something forbidden.
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
        """Folder of the bundle."""
        return self._files.folder

    @property
    def payload(self) -> Payload:
        """Payload that the bundle computes."""
        return self._files.payload

    @property
    def manifest(self) -> Manifest:
        """Contents of manifest.json."""
        return self._files.manifest

    @property
    def script(self) -> str:
        """The transform script of the whole payload, as plain transform dialect."""
        return self._files.script

    @property
    def tasks(self) -> Mapping[str, TaskRecord]:
        """Record of every task, by tag: family, config, seconds, number of executions per call."""
        return self.manifest.tasks

    @property
    def speedup(self) -> Interval | None:
        """Recorded speed-up of the winner over the baseline, with its 95 % interval; `None` without a baseline."""
        return self.manifest.speedup

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between the recording and the current environment, and their effects, one sentence each."""
        return differences_now(self._files, this_machine())

    def replay(self, timeout: float | None = None, *, emulate: bool = False) -> Replay:
        """Compile, verify and time the program and its baseline in isolated processes; takes seconds to minutes.

        Args:
            timeout: Time limit of one process in seconds; by default derived from the recorded times.
            emulate: Emulate tiles of a matrix unit that this processor lacks, which is correct but slow.

        Returns:
            Result with ``verdict``: ``holds``, ``weaker``, ``stronger``, ``wrong``, ``unknown`` or ``impossible``.
        """
        return replay(self.folder, timeout, named=self._named, emulate=emulate)

    @with_keywords(READ_ONLY)
    def regress(self, *, quick: bool = True, **options: Any) -> RegressionFinding:  # noqa: ANN401 - of RegressOptions
        """Measure the program again and compare it with the recorded times; nothing is written.

        Args:
            quick: Finish within two minutes, possibly with an inconclusive result.
            **options: Options of ``autotune regress`` that change the measurement, such as ``factor=1.2``.

        Raises:
            OptionError: An option is out of its range.
        """
        (finding,) = regress(
            [self.folder], options_from(RegressOptions, READ_ONLY, {"quick": quick, **options}, "regress")
        )
        return finding

    def emit(self, folder: str | Path, kind: str = "object") -> list[Path]:
        """Write the program, compiled for this host, and a C header.

        Args:
            folder: Folder to write to; created if it is missing.
            kind: Kind of file: ``object``, ``llvm`` or ``asm``.

        Returns:
            Paths of the written files.
        """
        return emit_bundle(self.folder, kind, Path(folder))

    @cached_property
    def function(self) -> PayloadFunction:
        """The program compiled in this process, which requires that the bundle is trusted."""
        return compile_bundle(self._files)

    def keep(self, /, **weights: Array) -> None:
        """Store copies of weights, which later calls need not pass and do not check or copy again.

        Raises:
            PayloadError: A name is not a weight of the payload, or an array has the wrong shape or dtype.
        """
        self.function.keep(**weights)

    def __call__(self, /, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
        """Run the program once on NumPy arrays, in this process; the first call compiles it.

        Args:
            *arrays: Inputs and weights in the payload's order; states may follow and are zero by default.
            **named: Arrays by name.

        Returns:
            New array of the output; if several arguments are written, states included, a dictionary by name.

        Raises:
            PayloadError: An array is missing, unknown, of the wrong shape or dtype, or out of range.
        """
        return self.function(*arrays, **named)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments of the program: names, roles, shapes and element types of inputs and outputs."""
        return self.payload.arguments
