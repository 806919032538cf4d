"""Which knobs matter: Optuna's evaluator on a study rebuilt from recorded trials."""

import optuna
import pandas as pd
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import create_trial

from autotune.reports.overview import config_of, knobs_of
from autotune.store.frames import KNOB

FEWEST_TRIALS = 10


def knob_importance(rows: pd.DataFrame) -> dict[str, float]:
    """Each knob's share in whether a trial is among the best tenth, the most important first; the shares add up to 1.

    PED-ANOVA (Watanabe, Bansal and Hutter, IJCAI 2023). It knows nothing of the code: a knob that the sampler hardly
    varied has no say. Knobs that took one value are left out.

    Args:
        rows: Trials of one task.

    Returns:
        Shares by knob; empty with fewer than `FEWEST_TRIALS` successes, or where all took equally long.
    """
    right = rows[(rows["outcome"] == "ok") & rows["seconds_normalised"].notna()]
    knobs = [name.removeprefix(KNOB) for name in knobs_of(right)]
    if len(right) < FEWEST_TRIALS or not knobs or right["seconds_normalised"].nunique() < 2:
        return {}
    configs = [{k: v for k, v in config_of(row).items() if k in knobs} for _, row in right.iterrows()]
    values = {knob: sorted({config[knob] for config in configs if knob in config}, key=str) for knob in knobs}
    study = optuna.create_study()
    study.add_trials(
        [
            create_trial(
                value=float(seconds),
                params=config,
                distributions={knob: CategoricalDistribution(values[knob]) for knob in config},
            )
            for config, seconds in zip(configs, right["seconds_normalised"], strict=True)
        ]
    )
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
