"""The table of a plan over numbers of GPUs and cards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor, log10

from tuner.consultation.planning import PlanAnswer, Variant
from tuner.counted import counted
from tuner.hardware import Cluster
from tuner.language import _
from tuner.plan.capacity import CapacityRow
from tuner.plan.gpus import which_gpus
from tuner.plan.price import whole_job
from tuner.plan.trade_off import TradePoint
from tuner.render.columns import columns
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Column, Heading, Paragraph, Part, Row, Table
from tuner.render.words import full_stop, listed, titled
from tuner.rules.wording import around, duration

_CENTS_BELOW = 100  # of an amount that is told with them
_PARTS_OF_CENTS_BELOW = 0.1
_THOUSANDS_FROM = 1000


def capacity_table(answer: PlanAnswer) -> Iterator[Part]:
    """A row for each number and card: its step, GPU-hours, price, and efficiency against the smallest."""
    if len(answer.rows) == 1:
        return
    yield Heading(text=_("Over numbers and cards"))
    yield table_of([_cells(row, answer) for row in answer.rows])
    yield from _unsure(answer)
    unread: dict[str, list[str]] = {}
    for row in answer.rows:
        if row.plan.unread:
            unread.setdefault(row.plan.unread, []).append(f"{row.cluster.gpus} x {row.cluster.gpu.name}")
    for reason, clusters in unread.items():
        text = titled(_("{clusters} cannot be read").format(clusters=listed(clusters)), full_stop(reason))
        yield Paragraph(text=user_text(text), level=1, further=1)


def _unsure(answer: PlanAnswer) -> Iterator[Part]:
    """Where a placement is ahead of the job where it is by less than what is uncertain of that."""
    forms = []
    for row in answer.rows:
        placed, own = answer.placed_best(row), row.plan.best
        if placed is not None and own is not None and (placed.change is None or not placed.change.is_gain):
            text = _("{gpus} x {gpu} ({seconds} s)")
            seconds = duration(own.time.seconds)
            forms.append(text.format(gpus=row.cluster.gpus, gpu=row.cluster.gpu.name, seconds=seconds))
    if forms:
        text = titled(
            _("Not sure to be faster than colocated, which keeps the training as it is"),
            full_stop(listed(forms)),
        )
        yield Paragraph(text=text, level=1, further=1)


def job_table(answer: PlanAnswer) -> Iterator[Part]:
    """What all steps take on each number and card; nothing where nobody says how many there are."""
    rows = [cells for cells in (_cells_of_job(row, answer) for row in answer.rows) if cells]
    if len(answer.rows) > 1 and rows:
        yield Heading(text=_("The whole job on them"))
        yield table_of(rows)


def trade_off_table(answer: PlanAnswer) -> Iterator[Part]:
    """What no other number and card beats in seconds and GPU-hours at once, from the fewest hours on."""
    kept = [point for point in _cheapest_first(answer.trade_off) if point.unbeaten]
    if len(answer.trade_off) > 1:
        yield Heading(text=_("Seconds against GPU-hours"))
        yield from _unbeaten(kept, _("GPU-hours"), _("more GPU-hours"), lambda point: point.gpu_hours, small)


def price_table(answer: PlanAnswer) -> Iterator[Part]:
    """What no other number and card with a price beats in seconds and price at once, the cheapest first."""
    priced = [point for point in _cheapest_first(answer.trade_off) if point.price is not None]
    kept = [point for point in priced if point.unbeaten_by_price]
    if len(priced) > 1:
        yield Heading(text=_("Seconds against the price"))
        yield from _unbeaten(kept, _("price"), _("higher price"), lambda point: point.price or 0.0, money)


def _cheapest_first(points: Sequence[TradePoint]) -> Iterator[TradePoint]:
    """Points from the slowest on; of placements that come to the same on one cluster the first alone."""
    seen: set[tuple[object, ...]] = set()
    told = []
    for point in points:
        same = (which_gpus(point.cluster), duration(point.step.seconds), small(point.gpu_hours))
        if same not in seen:
            told.append(point)
        seen.add(same)
    yield from reversed(told)


def _unbeaten(
    points: Sequence[TradePoint],
    title: str,
    more: str,
    cost: Callable[[TradePoint], float],
    written: Callable[[float], str],
) -> Iterator[Part]:
    """A row for each, with what it saves and costs beside the one above it; a sentence of a single one."""
    if len(points) == 1:
        yield Paragraph(text=_the_only_one(points[0], title, written(cost(points[0]))), level=1, further=1)
        return
    text = _("None of the others beats these in both at once; each row is compared with the one above it.")
    yield Paragraph(text=text, level=1, further=1)
    rows, placed = [], any(point.placement for point in points)
    for place, point in enumerate(points):
        step = point.step
        cells = {
            _("card"): point.card,
            _("GPUs"): str(point.gpus),
            **({_("with"): _where(point.placement)} if placed else {}),
            _("step, s"): around(duration(step.seconds), duration(step.low_s), duration(step.high_s)),
            title: written(cost(point)),
        }
        if place:
            before = points[place - 1]
            cells[_("less time")] = f"{1 - step.seconds / before.step.seconds:.0%}"
            cells[_("more") if placed else more] = (
                f"{cost(point) / cost(before) - 1:.0%}" if cost(before) else ""
            )
        rows.append(cells)
    yield table_of(rows)


def cluster_words(cluster: Cluster) -> str:
    """The GPUs of a cluster: ``"16 x h100-sxm on 2 nodes"``."""
    return _("{gpus} x {gpu} on {nodes}").format(
        gpus=cluster.gpus, gpu=cluster.gpu.name, nodes=counted(cluster.nodes, "node")
    )


def _the_only_one(point: TradePoint, title: str, cost: str) -> str:
    """What is better than all others in both: it is nothing to choose from."""
    what = listed([cluster_words(point.cluster), *([point.placement] if point.placement else [])])
    text = _("{what} takes least of both (step {seconds} s, {title} {cost}): no other is better in either.")
    return text.format(what=what, seconds=duration(point.step.seconds), cost=cost, title=title)


def _where(placement: str) -> str:
    """Where a job generates, in a table that has placements."""
    return placement or _("colocated")


def variant_table(answer: PlanAnswer) -> Iterator[Part]:
    """A row for each combination of varied settings; other batches are compared by their sequences."""
    if answer.variants:
        yield Heading(text=_("Varied"))
        yield table_of([_cells_of_variant(variant, answer) for variant in answer.variants])
        for variant in answer.variants:
            yield from _beside_variant(variant)


def _beside_variant(variant: Variant) -> Iterator[Part]:
    """Why a variant cannot be read, and what it needs beside its lines."""
    name, needs = " ".join(variant.overrides), variant.needs
    words = [full_stop(variant.plan.unread)] if variant.plan.unread else []
    if needs is not None:
        text = _("It needs another configuration: start {program} with {options}.")
        words.append(text.format(program=needs.program, options=" ".join(needs.options)))
        if needs.package:
            words.append(_("{package} has to be installed.").format(package=needs.package))
    if words:
        yield Paragraph(text=user_text(titled(name, " ".join(words))), level=1, further=1)


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
    cluster, best, placed = row.cluster, row.best, bool(answer.placements)
    cells = {_("card"): cluster.gpu.name, _("GPUs"): str(cluster.gpus)}
    if not placed or _gpus_twice(answer):  # a line has no room for everything
        cells[_("nodes")] = str(cluster.nodes)
    if placed:
        cells[_("with")] = _where(row.placement) if best is not None else ""
    if best is None:
        return {**cells, _("step, s"): _("cannot be read") if row.plan.unread else _("does not fit")}
    step, price = best.step, answer.prices.get(cluster.gpu.name)
    if answer.plan.strategies:
        cells[_("with")] = best.strategy
    cells[_("step, s")] = around(duration(step.seconds), duration(step.low_s), duration(step.high_s))
    cells[_("GPU-hours")] = small(best.gpu_hours)
    if not placed:
        cells[_("efficiency")] = "" if row.efficiency is None else f"{row.efficiency:.0%}"
    if price is not None:
        cells[_("price")] = money(best.gpu_hours * price)
    return cells


def _gpus_twice(answer: PlanAnswer) -> bool:
    """Whether as many GPUs of a card stand in two rows, on another number of nodes."""
    numbers = [(row.cluster.gpu.name, row.cluster.gpus) for row in answer.rows]
    return len(set(numbers)) < len(numbers)


def _cells_of_job(row: CapacityRow, answer: PlanAnswer) -> Mapping[str, str]:
    """Hours, GPU-hours and price of all steps; nothing where nobody says how many there are."""
    cluster, best = row.cluster, row.best
    price = answer.prices.get(cluster.gpu.name)
    whole = None if best is None else whole_job(best, answer.steps, price)
    if whole is None:
        return {}
    cells = {
        _("card"): cluster.gpu.name,
        _("GPUs"): str(cluster.gpus),
        **({_("with"): _where(row.placement)} if answer.placements else {}),
        _("hours in all"): around(duration(whole.hours), *map(duration, whole.ends)),
        _("GPU-hours"): small(whole.gpu_hours),
    }
    if whole.price is not None:
        cells[_("price in all")] = money(whole.price)
    return cells


def _cells_of_variant(variant: Variant, answer: PlanAnswer) -> Mapping[str, str]:
    """The step of a combination, what a thousand sequences take, and the whole job."""
    best = variant.plan.best
    cells = {_("with"): " ".join(variant.overrides)}
    if best is None:
        return {**cells, _("step, s"): _("cannot be read") if variant.plan.unread else _("does not fit")}
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
    """A number with as many digits as a model deserves: ``"8,603"``, ``"12"``, ``"0.30"``, ``"0.067"``."""
    if number >= _THOUSANDS_FROM:
        return f"{number:,.0f}"
    return duration(number) if number >= 1 else _below_one(number)


def _below_one(number: float) -> str:
    """Two digits behind the zeros: ``"0.30"``, ``"0.000091"``."""
    return f"{number:.{1 - floor(log10(number))}f}" if number > 0 else "0"


def money(amount: float) -> str:
    """An amount of whatever the price is in: ``"21,507"``, ``"17.25"``, ``"0.030"``."""
    if 0 < amount < _PARTS_OF_CENTS_BELOW:
        return _below_one(amount)
    return f"{amount:,.0f}" if amount >= _CENTS_BELOW else f"{amount:,.2f}"
