"""A session, and a model that is compiled once."""

import pytest
from generate_support import CONFIG, SIZES

from autotune.bundles.session import Session
from autotune.contrib.generate.gpt import cached_gpt, make_function


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def model(session):
    return cached_gpt(CONFIG, lambda name, tokens: session.load(make_function("gpt", SIZES, name, tokens)), 16)
