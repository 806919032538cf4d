"""Importance of knobs, by an Optuna evaluator on a study rebuilt from recorded trials."""

import optuna
import pandas as pd
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import create_trial

from autotune.reports.overview import config_of, knobs_of
from autotune.store.frames import KNOB

FEWEST_TRIALS = 10


def knob_importance(rows: pd.DataFrame) -> dict[str, float]:
    """Return the importance of each knob for a trial to be among the best tenth, in descending order; they sum to 1.

    The evaluator is PED-ANOVA (Watanabe, Bansal and Hutter, IJCAI 2023). It sees only the trials: a knob that the
    sampler hardly varied appears unimportant. Knobs with a single value are left out.

    Args:
        rows: Trials of one task.

    Returns:
        Importance by knob; empty with fewer than `FEWEST_TRIALS` successes, or if all took equally long.
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
