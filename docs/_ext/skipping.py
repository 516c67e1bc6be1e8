"""Training without the responses that have no advantage: its seconds as a table, and for ``:now:``.

``.. skipping:: 25 50`` has a row for each percentage of the responses; what stands in the content are
overrides that the job gets before.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import running_job
from tables import table
from tuner.timing import step_time
from tuner.workload import Phase, Workload

Overrides = Sequence[str]
HEADER = ("Responses without advantage", "Update", "Step", "Step against before", "Share × update")


def _with_advantage(workload: Workload, percent: int) -> Workload:
    """As many mini-batches, each with the responses that have an advantage."""
    batch = workload.batch
    mini_batch = min(batch.mini_batch_prompts, batch.prompts)
    left = max(1, ceil(mini_batch * (1 - percent / 100)))
    return workload.with_batch(mini_batch_prompts=left, prompts=left * ceil(batch.prompts / mini_batch))


def update_seconds(percent: int, overrides: Overrides) -> tuple[float, float]:
    """Of the update: with all responses, and without these."""
    job = running_job.workload(overrides)
    held = running_job.rollout(overrides).concurrent_sequences
    before, after = (
        step_time(each, concurrent_sequences=held).phase(Phase.UPDATE_ACTOR)
        for each in (job, _with_advantage(job, percent))
    )
    if before is None or after is None:
        raise ValueError("the job has no update")
    return before.seconds, after.seconds


def row(percent: int, overrides: Overrides) -> list[str]:
    """One share of the responses."""
    before, after = update_seconds(percent, overrides)
    step = running_job.time(overrides).seconds
    return [
        f"{percent} %",
        f"{after:.0f}\N{NO-BREAK SPACE}s",
        f"{step - before + after:.0f}\N{NO-BREAK SPACE}s",
        f"{(after - before) / step:+.0%}".replace("%", " %") if percent else "–",
        f"{percent / 100 * before:.0f}\N{NO-BREAK SPACE}s",
    ]


def _skipped(percent: str, overrides: Overrides) -> str:
    """How much shorter the step would be."""
    before, after = update_seconds(int(percent), overrides)
    return f"{(before - after) / running_job.time(overrides).seconds:.0%}".replace("%", " %")


#: As in ``computed``.
QUANTITIES: dict[str, Callable[..., str]] = {"skipped": _skipped}  # a percentage of the responses


class Skipping(SphinxDirective):
    """A row for each percentage of the responses."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        """The table."""
        overrides = tuple(" ".join(self.content).split())
        try:
            rows = [row(int(percent), overrides) for percent in self.arguments[0].split()]
        except running_job.DoesNotStartError as error:
            raise self.error(str(error)) from error
        return table(self, HEADER, rows)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("skipping", Skipping)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
