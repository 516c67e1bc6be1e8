"""A plan as a document: the best settings, the fewest GPUs, what each number costs, and the search."""

from collections.abc import Iterator

from tuner.consultation.planning import PlanAnswer
from tuner.counted import counted
from tuner.language import _
from tuner.plan.answer import ClusterPlan, PlannedSetting
from tuner.plan.packages import PackageGain
from tuner.plan.price import JobTotals, whole_job
from tuner.render.block import pasted
from tuner.render.document.marks import strong, user_text
from tuner.render.document.parts import AnswerDocument, Heading, Paragraph, Part, Paste
from tuner.render.numbers import gib, seconds
from tuner.render.plan_longest import longest_responses
from tuner.render.plan_measure import deciding_measurements
from tuner.render.plan_placement import placed_lines, placement_parts
from tuner.render.plan_premises import premises_of
from tuner.render.plan_strategies import started_otherwise, strategies_compared
from tuner.render.plan_table import (
    capacity_table,
    cluster_words,
    job_table,
    money,
    price_table,
    small,
    trade_off_table,
    variant_table,
)
from tuner.render.plan_why import nothing_fits, row_words, search_facts
from tuner.render.words import clauses, listed, titled
from tuner.rules.wording import around, duration
from tuner.units import GIB


def plan_document(answer: PlanAnswer) -> AnswerDocument:
    """The whole plan."""
    return AnswerDocument(sections=(*choices(answer), *tables(answer)))


def choices(answer: PlanAnswer) -> tuple[tuple[Part, ...], ...]:
    """What was planned, and what to run: the best settings, the longest responses, the fewest GPUs."""
    return (
        tuple(premises_of(answer)),
        *_settings(answer),
        *_measurements(answer),
        tuple(longest_responses(answer)),
        tuple(_fewest(answer)),
    )


def tables(answer: PlanAnswer) -> tuple[tuple[Part, ...], ...]:
    """What other numbers and cards bring, and how many settings were looked at."""
    return (
        tuple(capacity_table(answer)),
        tuple(job_table(answer)),
        tuple(trade_off_table(answer)),
        tuple(price_table(answer)),
        tuple(variant_table(answer)),
        *placement_parts(answer),
        tuple(search_facts(answer.plan)),
        tuple(_stopped(answer)),
    )


def _stopped(answer: PlanAnswer) -> Iterator[Part]:
    """The words for what is not there of what was asked for, where the first search had ended before."""
    if answer.stopped and not answer.plan.stopped:
        text = _("Stopped before all that was asked for had been planned: some of it is missing.")
        yield Paragraph(text=text, further=1)


def _measurements(answer: PlanAnswer) -> Iterator[tuple[Part, ...]]:
    """What was measured, or what could be."""
    if answer.corrections is None:
        yield tuple(deciding_measurements(answer))
        return
    from tuner.render.plan_measured import measured_parts  # few plans are

    yield tuple(measured_parts(answer.corrections))


def _settings(answer: PlanAnswer) -> Iterator[tuple[Part, ...]]:
    """The best settings on the cards that there are, each with its block."""
    where = cluster_words(answer.plan.cluster)
    if answer.plan.best is None:
        text = _("No plan for {where}") if answer.plan.unread else _("Nothing fits on {where}")
        compared = strategies_compared(answer.plan)
        yield (Heading(text=text.format(where=where)), *compared, *nothing_fits(answer))
        return
    yield (
        Heading(text=_("Best on {where}").format(where=where)),
        *_ties(answer.plan),
        *strategies_compared(answer.plan),
    )
    for setting in answer.plan.settings:
        yield tuple(_setting(setting, answer))


def _ties(plan: ClusterPlan) -> Iterator[Part]:
    for one in plan.decisions:
        lines = " ".join(f"{key}={value}" for key, value in one.values)
        text = _(
            "yours to decide: {lines} lifts what refuses the launch ({code}: {message}), and changes the "
            "training"
        )
        yield Paragraph(
            text=user_text(text.format(lines=lines, code=one.code, message=one.message)), level=1, further=1
        )
    tied = sum(setting.rank == 1 for setting in plan.settings)
    if tied > 1:
        text = _("{count} settings share rank 1: their difference is smaller than what is uncertain of it.")
        yield Paragraph(text=text.format(count=tied), level=1)


def _setting(
    setting: PlannedSetting, answer: PlanAnswer, lines: tuple[str, ...] | None = None
) -> Iterator[Part]:
    """A setting with what it comes to, and what to paste: its overrides, where nothing else is given."""
    text = f"{strong(f'{setting.rank}.')} {clauses(_figures(setting, answer))}"
    yield Paragraph(text=text, further=1)
    yield Paragraph(text=_limits(setting), level=1, further=1)
    if setting.needs is not None:
        yield from started_otherwise(setting, setting.needs)
    elif setting.overrides:
        yield Paste(lines=lines or tuple(pasted(setting.overrides).split("\n")))
    else:
        yield Paragraph(text=_("The job as it is."), level=1)
    if setting.with_package is not None and _is_seen(setting.with_package, setting):
        yield from _with_package(setting.with_package)


def _is_seen(gain: PackageGain, setting: PlannedSetting) -> bool:
    """Whether the seconds with a package are written otherwise than those without it."""
    return duration(gain.seconds) != duration(setting.time.seconds)


def _with_package(gain: PackageGain) -> Iterator[Part]:
    """The lines that need a package, which are no part of the block."""
    text = _("Where {package} is installed, this line as well makes the step {seconds} s:")
    yield Paragraph(text=text.format(package=gain.package, seconds=duration(gain.seconds)), level=1)
    yield Paste(lines=tuple(pasted(gain.overrides).split("\n")))


def _figures(setting: PlannedSetting, answer: PlanAnswer) -> Iterator[str]:
    """Seconds and GPU-hours of a step, then hours and price of the job as far as they are known."""
    gpu = setting.workload.cluster.gpu.name
    yield _("a step takes {step}").format(step=seconds(setting.step, gpu))
    yield _("{hours} GPU-hours a step").format(hours=small(setting.gpu_hours))
    price = answer.prices.get(gpu)
    if price is not None:
        yield _("{price} a step").format(price=money(setting.gpu_hours * price))
    whole = whole_job(setting, answer.steps, price)
    if whole is not None:
        yield whole_words(whole)


def whole_words(whole: JobTotals) -> str:
    """The whole job: ``"500 steps: 21 h (15 to 29), 170 GPU-hours, 425"``."""
    hours = around(_("{hours} h").format(hours=duration(whole.hours)), *map(duration, whole.ends))
    words = [hours, _("{hours} GPU-hours").format(hours=small(whole.gpu_hours))]
    if whole.price is not None:
        words.append(_("price {price}").format(price=money(whole.price)))
    return titled(counted(whole.steps, "step"), listed(words))


def _limits(setting: PlannedSetting) -> str:
    """What every phase leaves free, the fullest first, where most of the step goes, and the host's share."""
    least = sorted(setting.phases, key=lambda one: one.spare_bytes)
    free = listed(f"{one.phase.value} {gib(one.spare_bytes)}" for one in least)
    words = [
        _("Of {capacity} the phases leave free at least: {free}.").format(
            capacity=gib(setting.estimate.capacity_bytes), free=free
        )
    ]
    if setting.longest is not None:
        share = max(one.seconds for one in setting.time.deciding_phases) / setting.time.seconds
        text = _("{share:.0%} of the step is {phase}.")
        words.append(text.format(phase=setting.longest.value, share=share))
    if setting.estimate.host_bytes >= GIB:
        text = _("A node needs {host} of host memory.")
        words.append(text.format(host=gib(setting.estimate.host_bytes)))
    return " ".join(words)


def _fewest(answer: PlanAnswer) -> Iterator[Part]:
    row = answer.fewest
    if row is None or row.least is None:
        asked = listed(dict.fromkeys(cluster_words(row.cluster) for row in answer.rows))
        if len(answer.rows) == 1:
            return  # which has been said
        yield Paragraph(text=_("It fits on none of these for certain: {asked}.").format(asked=asked))
        return
    yield Heading(text=_("Fewest GPUs: {where}").format(where=row_words(row)))
    if row.plan is answer.plan:
        yield Paragraph(text=_("On no smaller number that was looked at it is sure to fit."), level=1)
        return
    placed = answer.placed_best(row) if row.plan.best is None else None
    yield from _setting(row.least, answer, None if placed is None else placed_lines(placed, row.least))
    launched = answer.job.configuration.processes_per_node
    if launched is not None:
        text = _("{launcher} starts the processes: have it start {gpus} on each node.")
        yield Paragraph(
            text=user_text(text.format(launcher=launched.text, gpus=row.cluster.gpus_per_node)), level=1
        )
