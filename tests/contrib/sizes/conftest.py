"""What tests of models of any size share."""

import pytest
from warm_pythons import CONVERTER, WarmPython


@pytest.fixture(scope="module")
def warm_converters():
    """Converters of ONNX models start in milliseconds."""
    converters = WarmPython(CONVERTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("payload.importers.converter.run_module", converters.run_module)
        yield
    converters.close()
