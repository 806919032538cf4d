"""Comparators that misbehave, each in its own way. Sent to processes of libraries: nothing here may import MLIR."""

import os
import resource
import signal
import sys
from dataclasses import dataclass

import numpy as np

from autotune.core.errors import ComparatorError
from autotune.core.plugs.comparator import LibraryVariant, Prepared

UNLIMITED = {"RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_DATA"}


def right(inputs):
    return (inputs["a"] @ inputs["b"],)


def off_by_a_little(inputs):
    return tuple(output + np.float32(0.01) for output in right(inputs))


def not_finite(inputs):
    return tuple(output * np.float32(np.inf) for output in right(inputs))


def of_another_shape(inputs):
    return tuple(output[..., :-1] for output in right(inputs))


def one_too_many(inputs):
    return (*right(inputs), np.zeros(1))


def raises(inputs):
    raise RuntimeError("no luck\ntoday")


def refuses(inputs):
    raise ComparatorError("it computes something else")


def refuses_too(inputs):
    raise ComparatorError("it has not this way")


def dies(inputs):
    os._exit(7)


def aborts(inputs):
    os.write(2, b"two of one symbol\n")
    os.abort()


def dies_when_timed(inputs, calls=[0]):  # noqa: B006 - of the process
    calls[0] += 1
    if calls[0] == 3:
        os.kill(os.getpid(), signal.SIGABRT)
    return right(inputs)


def looks_around(inputs):
    """Refuse to compute where it finds MLIR or a limit of ours."""
    found = {name for name in sys.modules if name.split(".")[0] == "mlir" or name.startswith("autotune.compiler")}
    with open("/proc/self/maps") as maps:
        found |= {line.split()[-1] for line in maps if "MLIR" in line or "LLVM" in line}
    found |= {name for name in UNLIMITED if resource.getrlimit(getattr(resource, name))[0] != resource.RLIM_INFINITY}
    if found:
        raise RuntimeError(" ".join(sorted(found)))
    return right(inputs)


@dataclass(frozen=True)
class Strange:
    """A comparator that behaves as its name says."""

    name: str
    modules: tuple[str, ...] = ()
    extra: str = "compare"

    def version(self):
        return f"{self.name} 1.0"

    def prepare(self, payload, inputs):
        behave = globals()[self.name]
        return Prepared(lambda: behave(inputs), lambda outputs: outputs, "by hand")


@dataclass(frozen=True)
class StrangeVariants(Strange):
    """A comparator with as many ways as its name has words, each a behaviour."""

    def variants(self):
        return tuple(LibraryVariant(way, Strange(way)) for way in self.name.split("+"))
