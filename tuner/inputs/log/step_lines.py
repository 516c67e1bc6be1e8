"""The lines of a log that tell of steps: one a step, or a block of lines with a metric or more in each."""

import re
from collections.abc import Iterator, Sequence

from tuner.inputs.log.lines import LONGEST, LogLine
from tuner.inputs.log.metrics import MOST_STEPS, StepMetrics, last_steps, read_step
from tuner.out_of_memory.printed_lines import PrintedLine, cleaned

_MOST_BEGINNINGS = 4 * MOST_STEPS  # a step may be repeated, or told in several lines
_MOST_LINES = 400  # of one step
_BEGINS = re.compile(r"(?<![\w/])step:(\d{1,9})\s*(?:-|$)")
# A metric as it stands in a line of its own, perhaps behind the mark that parts it from the one before.
_METRIC = re.compile(
    r"\s*(?:-\s+)?[\w@.-]{1,60}/[\w/@.-]{1,100}: ?(?:np\.\w{1,20}\(|-?\d|-?inf\b|nan\b|True\b|False\b)"
)


def steps_in(lines: Sequence[LogLine]) -> tuple[StepMetrics, ...]:
    """The metrics of the last steps that these lines tell of."""
    begins = [index for index, line in enumerate(lines) if "step:" in line.text][-_MOST_BEGINNINGS:]
    texts = (_joined_lines(lines, index) for index in begins)
    return last_steps(step for text in texts if (step := read_step(text)) is not None)


def tells_step(line: LogLine) -> bool:
    """Whether a line begins what is told of a step; step 0 is the validation before the first."""
    begin = _BEGINS.search(line.text) if "step:" in line.text else None
    return begin is not None and int(begin[1]) > 0


def _joined_lines(lines: Sequence[LogLine], index: int) -> str:
    """The line in which a step begins, with those that its metrics go on in, as one line."""
    raw = lines[index].text
    further = list(_further(lines, index))
    if not further:
        return raw
    first = raw.rstrip().removesuffix("-").rstrip()
    return " - ".join([first, *further])


def _further(lines: Sequence[LogLine], index: int) -> Iterator[str]:
    # A progress bar may stand before the metrics, and Ray's prefix between both.
    source = _cleaned_line(lines[index].text.rpartition("\r")[2]).source
    for line in lines[index + 1 : index + _MOST_LINES]:
        printed = _cleaned_line(line.text)
        if printed.source != source or not _METRIC.match(printed.text):
            return
        yield printed.text.strip().removeprefix("- ").removesuffix("-").strip()


def _cleaned_line(text: str) -> PrintedLine:
    return cleaned(text, longest=LONGEST)
