"""A session, and a model that is compiled once."""

import pytest
from generate_support import CONFIG, SIZES
from warm_pythons import CONVERTER, WarmPython

from autotune.bundles.session import Session
from payload.generate import CachedModel, make_function


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def model(session):
    return CachedModel(CONFIG, lambda name, tokens: session.load(make_function("gpt", SIZES, name, tokens)), 16)


@pytest.fixture(scope="module")
def warm_converters():
    """Converters of ONNX models start in milliseconds."""
    converters = WarmPython(CONVERTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("payload.importers.converter.run_module", converters.run_module)
        yield
    converters.close()
