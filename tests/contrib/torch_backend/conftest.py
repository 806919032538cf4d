import pytest


@pytest.fixture(scope="package", autouse=True)
def own_store(tmp_path_factory):
    """Programs are kept in a folder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("kept")))
        yield
