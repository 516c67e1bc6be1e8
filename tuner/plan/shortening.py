"""A setting with no more lines than are worth it."""

from collections.abc import Sequence

from tuner.plan.judge import Candidate, Judge
from tuner.plan.legality import Legality
from tuner.plan.space import Choice, Space
from tuner.rules.case import CaseFigures

_MOST_LOST = 0.003  # of the step, by all lines that are left out together


def shortened(
    setting: Candidate, space: Space, legality: Legality, judge: Judge, known: Sequence[Candidate]
) -> Candidate:
    """A setting without the changes that bring next to nothing, as the trainer reads it.

    Args:
        setting: the trainer takes it, and it fits.
        space: that it is from.
        legality: of the job's trainer.
        judge: of the card.
        known: settings that it stays no slower than, where it was not slower before.
    """
    bounds = [one.seconds for one in known if one.seconds >= setting.seconds]
    most_s = min([setting.seconds * (1 + _MOST_LOST), *bounds])
    if space.workload(setting.choice) != setting.workload:
        return setting  # what advice made of the job, or the trainer of the choice
    choice = setting.choice
    for place in range(len(choice)):
        without = (*choice[:place], 0, *choice[place + 1 :])
        if without != choice and not space.axes[place].layout and _serves(without, space, judge, most_s):
            choice = without
    read = setting if choice == setting.choice else legality.setting(choice)
    if read is None or judge.failing(read.workload, read.figures) or read.seconds > most_s:
        return setting
    return read if len(read.overrides or ()) < len(setting.overrides or ()) else setting


def _serves(choice: Choice, space: Space, judge: Judge, most_s: float) -> bool:
    workload = space.workload(choice)
    figures = CaseFigures(workload)
    return judge.failing(workload, figures) is None and figures.time.seconds <= most_s
