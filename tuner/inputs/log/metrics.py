"""The metrics of steps in the form in which a console logger prints them, one line a step.

``step:12 - timing_s/gen:41.200 - perf/throughput:np.float64(913.2)``

Source: verl ``utils/logger/aggregate_logger.py`` (``concat_dict_to_str``): three decimals up to 0.4.1, since
0.5.0 what ``pprint`` writes of a number of Python or NumPy.
"""

import re
from collections import deque
from collections.abc import Iterable

from msgspec import Struct

MOST_STEPS = 1000  # whose metrics are kept: the last ones
_STEP = re.compile(r"(?<![\w/])step:(\d{1,9}) - ")
_NUMBER = r"\d{1,300}(?:\.\d{0,40})?(?:[eE][-+]?\d{1,3})?"
_VALUE = re.compile(rf"(?:np\.\w{{1,20}}\()?(-?(?:{_NUMBER}|inf|nan)|True|False)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_NAME = 120  # characters of a metric's name
LARGEST = 1e18  # of any metric; what is larger was damaged, and goes beyond all numbers in another unit


class StepMetrics(Struct, frozen=True, kw_only=True):
    """What one step reported."""

    step: int
    values: dict[str, float]  # finite ones of a usual size, by the trainer's names


def read_step(text: str) -> StepMetrics | None:
    """The metrics of a line; None where it has none. A progress bar may stand in front of them."""
    begin = _STEP.search(text)
    if begin is None:
        return None
    values = {}
    for part in _COLOURS.sub("", text[begin.end() :]).split(" - "):
        name, colon, written = part.rpartition(":")
        match = _VALUE.match(written.lstrip()) if colon and len(name) <= LONGEST_NAME else None
        if match is not None:
            value = float({"True": "1", "False": "0"}.get(match[1], match[1]))
            if abs(value) <= LARGEST:  # nan is not
                values[name.strip()] = value
    return StepMetrics(step=int(begin[1]), values=values) if values else None


def last_steps(steps: Iterable[StepMetrics]) -> tuple[StepMetrics, ...]:
    """The steps of one run, the last of them where there are many; one that was repeated counts once.

    Lines of the same step that follow each other make one: trainers whose parts run apart log one for each.
    """
    last: deque[StepMetrics] = deque(maxlen=MOST_STEPS)
    for step in steps:
        while last and step.step < last[-1].step:  # the job began again behind a checkpoint
            last.pop()
        before = last.pop().values if last and step.step == last[-1].step else {}
        last.append(StepMetrics(step=step.step, values=before | step.values))
    return tuple(last)
