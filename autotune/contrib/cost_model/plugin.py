"""Registration of the cost model as the samplers ``auto`` and ``model``."""

from autotune.tuning.samplers.sampler import Sampler, SamplerKind, SpaceView


def open_model(view: SpaceView, seed: int) -> Sampler:
    """Return a cost model for a space; loads SciPy."""
    from autotune.contrib.cost_model.model import CostModel

    return CostModel(view, seed)


MODEL = SamplerKind(open_model, "a cost model", takes_transfer=True)
