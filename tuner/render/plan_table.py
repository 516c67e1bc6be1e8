"""The table of a plan over numbers of GPUs and cards."""

from collections.abc import Iterator, Mapping, Sequence

from tuner.consultation.planning import PlanAnswer, Variant
from tuner.language import _
from tuner.plan.capacity import CapacityRow
from tuner.plan.price import whole_job
from tuner.render.columns import columns
from tuner.render.document.parts import Column, Heading, Part, Row, Table
from tuner.rules.wording import around, duration

_CENTS_BELOW = 100  # of an amount that is told with them


def capacity_table(answer: PlanAnswer) -> Iterator[Part]:
    """A row for each number and card: its step, GPU-hours, price, and efficiency against the smallest."""
    if len(answer.rows) == 1:
        return
    yield Heading(text=_("Over numbers and cards"))
    yield table_of([_cells(row, answer) for row in answer.rows])


def variant_table(answer: PlanAnswer) -> Iterator[Part]:
    """A row for each combination of varied settings; other batches are compared by their sequences."""
    if answer.variants:
        yield Heading(text=_("Varied"))
        yield table_of([_cells_of_variant(variant, answer) for variant in answer.variants])


def table_of(rows: Sequence[Mapping[str, str]]) -> Table:
    """Cells in columns that are as wide as they have to be; those of words lie on the left."""
    titles = list(dict.fromkeys(title for row in rows for title in row))
    words = (_("card"), _("with"))
    widths = {
        title: max(columns(text) for text in (title, *(row.get(title, "") for row in rows)))
        for title in titles
    }
    return Table(
        columns=tuple(
            Column(title=title, width=widths[title], align="left" if title in words else "right", before="  ")
            for title in titles
        ),
        rows=tuple(Row(cells=tuple(row.get(title, "") for title in titles)) for row in rows),
    )


def _cells(row: CapacityRow, answer: PlanAnswer) -> Mapping[str, str]:
    """The cells of a row by the titles of their columns, as far as there is something to say."""
    cluster, best = row.cluster, row.best
    cells = {_("card"): cluster.gpu.name, _("GPUs"): str(cluster.gpus), _("nodes"): str(cluster.nodes)}
    if best is None:
        return {**cells, _("step, s"): _("cannot be read") if row.plan.unread else _("does not fit")}
    step, price = best.step, answer.prices.get(cluster.gpu.name)
    cells[_("step, s")] = around(duration(step.seconds), duration(step.low_s), duration(step.high_s))
    cells[_("GPU-hours")] = small(best.gpu_hours)
    cells[_("efficiency")] = "" if row.efficiency is None else f"{row.efficiency:.0%}"
    if price is not None:
        cells[_("price")] = money(best.gpu_hours * price)
    whole = whole_job(best, answer.steps, price)
    if whole is not None:
        cells[_("hours in all")] = duration(whole.hours)
        if whole.price is not None:
            cells[_("price in all")] = money(whole.price)
    return cells


def _cells_of_variant(variant: Variant, answer: PlanAnswer) -> Mapping[str, str]:
    """The step of a combination, what a thousand sequences take, and the whole job."""
    best = variant.plan.best
    cells = {_("with"): " ".join(variant.overrides)}
    if best is None:
        return {**cells, _("step, s"): _("does not fit")}
    step, sequences = best.step, best.workload.batch.sequences
    cells[_("step, s")] = around(duration(step.seconds), duration(step.low_s), duration(step.high_s))
    cells[_("GPU-hours of 1,000 sequences")] = small(best.gpu_hours * 1000 / max(1, sequences))
    whole = whole_job(best, variant.steps, answer.prices.get(best.workload.cluster.gpu.name))
    if whole is not None:
        cells[_("hours in all")] = duration(whole.hours)
        if whole.price is not None:
            cells[_("price in all")] = money(whole.price)
    return cells


def small(number: float) -> str:
    """A number with as many digits as a model deserves, below 1 as well: ``"0.067"``."""
    return duration(number) if number >= 1 else f"{number:.2g}"


def money(amount: float) -> str:
    """An amount of whatever the price is in."""
    return f"{amount:,.0f}" if amount >= _CENTS_BELOW else f"{amount:,.2f}"
