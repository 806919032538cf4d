"""Samplers by name: those of Optuna, and packages of OptunaHub, the registry of third-party samplers.

    GPSampler                                   a sampler of Optuna
    optunahub:samplers/auto_sampler             the only sampler of a package
    optunahub:samplers/auto_sampler:AutoSampler

A package is fetched once, into OptunaHub's own cache, and its code runs in this process: the user must trust it.
"""

import inspect
import re
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TypeGuard

import optuna
from optuna.distributions import IntDistribution
from optuna.samplers import BaseSampler

from autotune.core.errors import MachineError, SpaceError
from autotune.core.host.extras import install_command
from autotune.core.printable import one_line
from autotune.tuning.samplers.optuna_adapter import Asking

HUB = "optunahub:"
PACKAGE = re.compile(r"([A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*)(?::([A-Za-z_][A-Za-z0-9_]*))?", re.ASCII)
MOST_CHARACTERS = 200  # characters of an error message of a package


def is_named(name: str) -> bool:
    """Return whether a name is that of an Optuna sampler, or of a package of OptunaHub."""
    return is_optunas(name) or name.startswith(HUB)


def is_optunas(name: str) -> bool:
    """Return whether a name is that of an Optuna sampler that requires at most a seed, such as ``NSGAIISampler``."""
    sampler = getattr(optuna.samplers, name, None) if name in optuna.samplers.__all__ else None
    return is_sampler(sampler) and not needed_by(sampler) and "seed" in inspect.signature(sampler).parameters


def is_sampler(value: object) -> TypeGuard[type[BaseSampler]]:
    """Return whether an object is a sampler class of Optuna."""
    return isinstance(value, type) and issubclass(value, BaseSampler)


def needed_by(kind: type[BaseSampler]) -> list[str]:
    """Return the required arguments of a sampler class."""
    parameters = inspect.signature(kind).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def named_sampler(name: str, seed: int) -> BaseSampler:
    """Return a sampler by its name; a sampler that takes no seed is not deterministic.

    Raises:
        MachineError: A package is missing, or cannot be fetched.
        SpaceError: The package has no such sampler, or one that needs more than a seed.
    """
    sampler_class = class_of(name.removeprefix(HUB)) if name.startswith(HUB) else getattr(optuna.samplers, name)
    seeds = {"seed": seed} if "seed" in inspect.signature(sampler_class).parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            return sampler_class(**seeds)
        except ImportError as error:
            raise MachineError(f"sampler {name} needs a package that is missing: {error.name}; install it") from error


def ask_by_name(name: str, counts: Sequence[int], seed: int) -> Asking:
    """Return a sampler by its name, over integer positions of the knobs' values.

    Raises:
        MachineError: A package is missing, or cannot be fetched.
        SpaceError: The package has no such sampler, or one that needs more than a seed.
    """
    space = {str(index): IntDistribution(0, count - 1) for index, count in enumerate(counts) if count > 1}
    return Asking(counts, named_sampler(name, seed), space)


@cache
def class_of(package: str) -> type[BaseSampler]:
    """Return the sampler class of a package of OptunaHub.

    Raises:
        MachineError: OptunaHub, or a dependency of the package, is missing, or the package cannot be fetched.
        SpaceError: The package has no such sampler, or one that needs more than a seed.
    """
    match = PACKAGE.fullmatch(package)
    if match is None:
        named = one_line(HUB + package)[:100]
        raise SpaceError(f"a sampler of OptunaHub must be named like {HUB}samplers/auto_sampler, got {named!r}")
    module = fetch(match[1])
    names = [name for name in getattr(module, "__all__", ()) if is_sampler(getattr(module, name, None))]
    if (match[2] is None and len(names) != 1) or (match[2] is not None and match[2] not in names):
        available = ", ".join(names) or "none"
        raise SpaceError(
            f"package {match[1]} must have the sampler that is meant, as in {HUB}{match[1]}:NAME; it has {available}"
        )
    sampler_class: type[BaseSampler] = getattr(module, match[2] or names[0])
    if needs := needed_by(sampler_class):
        raise SpaceError(f"sampler {sampler_class.__name__} must need nothing but a seed, it needs {', '.join(needs)}")
    return sampler_class


def fetch(package: str) -> ModuleType:
    """Load a package of OptunaHub, from its cache or the network.

    Raises:
        MachineError: OptunaHub, or a dependency of the package, is missing, or the package cannot be fetched.
    """
    if find_spec("optunahub") is None:
        raise MachineError(
            f"samplers of OptunaHub need the package optunahub, which is missing; {install_command('optunahub')}"
        )
    try:
        module: ModuleType = import_module("optunahub").load_module(package)
    except ImportError as error:
        raise MachineError(
            f"package {package} of OptunaHub needs {error.name or error}, which is missing; install it"
        ) from error
    except Exception as error:  # git, the network, and external code
        message = next((line for line in str(error).splitlines()[::-1] if line.strip()), type(error).__name__)
        why = one_line(message.strip())[:MOST_CHARACTERS]
        raise MachineError(f"package {package} of OptunaHub must be there to be fetched; {why}") from error
    return module
