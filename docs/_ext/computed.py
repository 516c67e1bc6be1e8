"""``:now:`` and ``.. prices::``: numbers of the guide's job, computed while the page is built.

``:now:`peak update_actor``` is the peak of a phase, ``:now:`step``` the modelled seconds of the step.
Behind a semicolon stand overrides that the job gets before: ``:now:`worst; advised```.
Overrides with which the job does not start are an error.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

import accuracy
import head_quantities
import recorded_updates
import running_job
import seconds_accuracy
import skipping
import token_budgets
import whole_runs
from tables import table
from tuner.memory import Item
from tuner.render.batches import batch_rows
from tuner.timing.tokens import micro_batches_of
from tuner.units import GIB, KIB

Overrides = Sequence[str]


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _peak(name: str, overrides: Overrides) -> str:
    return _gib(running_job.phase(name, overrides).peak_bytes)


def _worst(overrides: Overrides) -> str:
    return _gib(running_job.phase("worst", overrides).peak_bytes)


def _most(overrides: Overrides) -> str:
    return _gib(running_job.phase("worst", overrides).interval[1])


def _worst_phase(overrides: Overrides) -> str:
    return running_job.phase("worst", overrides).phase.value


def _item(name: str, item: str, overrides: Overrides) -> str:
    return _gib(running_job.phase(name, overrides).bytes_of(Item(item)))


def _share(name: str, overrides: Overrides) -> str:
    seconds = {time.phase.value: time.seconds for time in running_job.time(overrides).phases}
    return f"{seconds[name] / running_job.time(overrides).seconds:.0%}".replace("%", " %")


def _step(overrides: Overrides) -> str:
    return f"{running_job.time(overrides).seconds:.0f} s"


def _seconds(name: str, overrides: Overrides) -> str:
    (found,) = (time for time in running_job.time(overrides).phases if time.phase.value == name)
    return f"{found.seconds:.0f} s"


def _shorter(overrides: Overrides) -> str:
    change = 1 - running_job.time(overrides).seconds / running_job.time().seconds
    return f"{change:.0%}".replace("%", " %")


def _sequences(overrides: Overrides) -> str:
    return f"{running_job.rollout(overrides).concurrent_sequences:,}"


def _kv_tokens(overrides: Overrides) -> str:
    return f"{running_job.rollout(overrides).kv_tokens:,}"


def _token_cache(overrides: Overrides) -> str:
    return f"{running_job.rollout(overrides).kv_bytes_per_token / KIB:,.0f} KiB"


def _sequences_per_replica(overrides: Overrides) -> str:
    job = running_job.workload(overrides)
    return f"{ceil(job.batch.sequences / job.generator.replicas):,}"


def _preempted(overrides: Overrides) -> str:
    return f"{running_job.rollout(overrides).preempted_sequences:,}"


def _batch(name: str, overrides: Overrides) -> str:
    return f"{getattr(running_job.workload(overrides).batch, name):,}"


def _rows(name: str, column: str, overrides: Overrides) -> str:
    (row,) = (row for row in batch_rows(running_job.workload(overrides)) if row.phase.value == name)
    return f"{getattr(row, column):,}"


def _card(overrides: Overrides) -> str:
    return _gib(running_job.answer(*overrides).advice.estimate.capacity_bytes)


def _host(overrides: Overrides) -> str:
    return _gib(running_job.answer(*overrides).advice.estimate.host_bytes)


def _knee(overrides: Overrides) -> str:
    return f"{token_budgets.knee(running_job.workload(overrides)):,}"


def _free(overrides: Overrides) -> str:
    return f"{token_budgets.free(running_job.workload(overrides)):,}"


def _length(overrides: Overrides) -> str:
    return f"{running_job.workload(overrides).batch.sequence_tokens:,}"


def _padding(overrides: Overrides) -> str:
    job = running_job.workload(overrides)
    padded = micro_batches_of(job.batch, job.actor_update).sequence_tokens
    return f"{1 - job.batch.mean_sequence_tokens / padded:.0%}".replace("%", " %")


def _gathered(overrides: Overrides) -> str:
    job = running_job.workload(overrides)
    return _gib(job.model.parameters * job.actor.engine.compute_dtype.bytes)


def _micro_batches(name: str, overrides: Overrides) -> str:
    return f"{token_budgets.micro_batches(name, overrides):,}"


#: What can be asked of the job: a name and how many words follow it.
QUANTITIES: dict[str, Callable[..., str]] = {
    "peak": _peak,  # a phase
    "item": _item,  # a phase, an item of the ledger
    "worst": _worst,
    "most": _most,  # the upper end of the interval of the worst phase's peak
    "worst-phase": _worst_phase,
    "step": _step,
    "seconds": _seconds,  # a phase
    "share": _share,  # a phase: of the step's seconds
    "shorter": _shorter,  # than the job's own step
    "sequences": _sequences,  # that the KV cache of one replica holds at once
    "kv-tokens": _kv_tokens,  # that it holds
    "token-cache": _token_cache,  # what one token takes of it on one GPU
    "asked": _sequences_per_replica,  # sequences of a step that one replica is given
    "preempted": _preempted,  # of the sequences that it runs, when all have their full length
    "batch": _batch,  # a field of the job's batch
    "batch-row": _rows,  # a phase, a column of the table of batch sizes
    "card": _card,
    "host": _host,
    **accuracy.QUANTITIES,
    **head_quantities.QUANTITIES,
    **skipping.QUANTITIES,
    **recorded_updates.QUANTITIES,
    **seconds_accuracy.QUANTITIES,
    **whole_runs.QUANTITIES,
    "knee": _knee,  # tokens of the update's budget beyond which a step gets no shorter
    "free-budget": _free,  # tokens of it up to which the update's peak does not grow
    "length": _length,  # tokens of the longest sequence
    "padding": _padding,  # share of what is computed where sequences are padded to the longest
    "gathered": _gathered,  # weights as they are computed with, whole
    "micro-batches": _micro_batches,  # a phase: of one GPU, in a mini-batch where it trains
}


def computed(text: str) -> str:
    """The number that is asked for.

    Raises:
        ValueError: nothing can be asked so.
    """
    asked, _, overrides = text.partition(";")
    name, *arguments = asked.split()
    if name not in QUANTITIES:
        raise ValueError(f"{name!r} is none of {', '.join(QUANTITIES)}")
    return QUANTITIES[name](*arguments, tuple(overrides.split()))


def now(
    name: str,
    rawtext: str,
    text: str,
    line: int,
    inliner: Inliner,
    options: object = None,
    content: object = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The role: a number as text."""
    try:
        answer = computed(text)
        if answer.count(" ") < 2:  # a number keeps its unit; a list of versions may break
            answer = answer.replace(" ", "\N{NO-BREAK SPACE}")
        return [nodes.inline(rawtext, answer, classes=["now"])], []
    except (ValueError, TypeError) as error:
        message = inliner.reporter.error(f":now:`{text}`: {error}", line=line)
        return [inliner.problematic(rawtext, rawtext, message)], [message]


class Prices(SphinxDirective):
    """Changes of the job with what they bring: a line each, a name, a colon and the overrides.

    ``:from:`` gives overrides that the first row and all changes have, ``:host:`` adds a column for the
    memory of a node.
    """

    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "from": directives.unchanged_required,
        "host": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """One row for the job as it is, and one for each change."""
        start = tuple(self.options.get("from", "").split())
        changes = [("as it is", ())]
        for line in self.content:
            label, _, overrides = line.partition(": ")
            changes.append((label, tuple(overrides.split())))
        host = "host" in self.options
        try:
            rows = [[label, *_priced(start, overrides, host=host)] for label, overrides in changes]
        except running_job.DoesNotStartError as error:
            raise self.error(str(error)) from error
        header = ["Change", "Worst phase", "Its peak", "Update", "Step", "Step against before"]
        widths = [34, 16, 14, 14, 10, 12]
        if host:
            header, widths = [*header, "Host of a node"], [*widths, 14]
        return table(self, header, rows, prose=["Change"], widths=widths)


def _priced(start: tuple[str, ...], change: tuple[str, ...], *, host: bool) -> list[str]:
    overrides = (*start, *change)
    longer = running_job.time(overrides).seconds / running_job.time(start).seconds - 1
    return [
        f"``{_worst_phase(overrides)}``",
        _worst(overrides),
        _peak("update_actor", overrides),
        _step(overrides),
        f"{longer:+.0%}".replace("%", " %") if change else "–",
        *([_host(overrides)] if host else []),
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the role and the directive."""
    app.add_role("now", now)
    app.add_directive("prices", Prices)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
