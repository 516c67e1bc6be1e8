"""``.. rollout-prices::``: changes of the rollout of the guide's job, and what each brings."""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import running_job
from tables import table
from tuner.units import GIB


class RolloutPrices(SphinxDirective):
    """A line for each change: a name, a colon and the overrides.

    What stands behind ``:with:`` is added to each of them, and to the job as it is.
    """

    has_content = True
    option_spec: ClassVar[OptionSpec] = {"with": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """One row for the job as it is, and one for each change."""
        always = tuple(self.options.get("with", "").split())
        changes = [("as it is", always)]
        for line in self.content:
            label, _, overrides = line.partition(": ")
            changes.append((label, (*always, *overrides.split())))
        try:
            rows = [[label, *self._priced(overrides)] for label, overrides in changes]
        except running_job.DoesNotStartError as error:
            raise self.error(str(error)) from error
        header = ["Change", "KV cache", "Fit at once", "Preempted", "Rollout", "Its peak"]
        return table(self, header, rows, prose=["Change"], widths=[34, 14, 13, 13, 12, 14])

    def _priced(self, overrides: tuple[str, ...]) -> list[str]:
        advice = running_job.answer(*overrides).advice
        (rollout,) = (phase for phase in advice.time.phases if phase.phase.value == "rollout")
        held = running_job.rollout(overrides)
        return [
            f"{held.kv_bytes / GIB:.1f} GiB",
            f"{held.concurrent_sequences:,}",
            f"{held.preempted_sequences:,}",
            f"{rollout.seconds:.1f} s",
            f"{running_job.phase('rollout', overrides).peak_bytes / GIB:.1f} GiB",
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("rollout-prices", RolloutPrices)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
