"""Why nothing fits, and what of a space a search has looked at."""

from collections.abc import Iterator

from tuner.advise.usual_host import LEAST_USUAL_BYTES, may_lack_host
from tuner.consultation.planning import PlanAnswer
from tuner.consultation.premises import OPTIONS
from tuner.counted import counted
from tuner.language import _
from tuner.plan.answer import ClusterPlan, Lacking
from tuner.plan.capacity import CapacityRow
from tuner.plan.judge import DOUBT, HOST, START
from tuner.plan.reasons import RelaxationKind
from tuner.plan.search import REFUSED
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Paragraph, Part
from tuner.render.numbers import gib
from tuner.render.plan_table import cluster_words, small
from tuner.render.words import clauses, full_stop, listed, titled
from tuner.rules.wording import count, duration

_REFUSALS = 5  # that are told


def nothing_fits(answer: PlanAnswer) -> Iterator[Part]:
    """What fails everywhere, what the setting lacks that comes nearest, and what would have to give."""
    lacking = answer.plan.lacking
    if answer.plan.unread:
        yield Paragraph(text=user_text(full_stop(answer.plan.unread)), level=1)
    if lacking is None:
        return
    yield Paragraph(text=_everywhere(lacking), level=1, further=1)
    words = [*lacking.problems]
    if lacking.phase is not None:
        text = _("{phase} lacks {missing} on a card of {capacity}")
        missing, capacity = gib(lacking.missing_bytes), gib(lacking.estimate.capacity_bytes)
        words.insert(0, text.format(phase=lacking.phase.value, missing=missing, capacity=capacity))
    if host := _host_words(lacking):
        words.append(host)
    if words:
        text = titled(_("The setting that comes nearest"), full_stop(clauses(words)))
        yield Paragraph(text=text, level=1, further=1)
    yield from _relaxations(answer)


def row_words(row: CapacityRow) -> str:
    """The GPUs of a row, and the placement with which alone it fits: ``"4 x l40s on 1 node, separate"``."""
    placement = [] if row.plan.best is not None or not row.placement else [row.placement]
    return listed([cluster_words(row.cluster), *placement])


def _host_words(lacking: Lacking) -> str:
    """What a node would need of host memory, where nobody says what it has and most have less."""
    estimate, gpus = lacking.estimate, lacking.workload.cluster.gpus_per_node
    if estimate.host_capacity_bytes is not None or not may_lack_host(estimate, gpus):
        return ""
    text = _("a node needs {expected} of host memory, up to {most}: nodes with {gpus} mostly have {usual}")
    return text.format(
        expected=gib(estimate.host_bytes),
        most=gib(estimate.host_high_bytes),
        gpus=counted(gpus, "GPU"),
        usual=gib(LEAST_USUAL_BYTES * gpus),
    )


def _everywhere(lacking: Lacking) -> str:
    """The constraint that fails in all settings; where none does, that it is their sum."""
    if lacking.phase is None and not lacking.problems and _host_words(lacking):
        return _("What fits the card takes more host memory than a node is likely to have.")
    if not lacking.everywhere:
        return _("Nothing fails in every setting: what makes room in one phase takes it in another.")
    phases = listed(f"{one.phase.value} {gib(one.missing_bytes)}" for one in lacking.everywhere)
    return _("In every setting that was looked at these lack memory, at least: {phases}.").format(
        phases=phases
    )


def _relaxations(answer: PlanAnswer) -> Iterator[Part]:
    """What would have to give, each with the price of a step then."""
    words = {
        RelaxationKind.HEADROOM: f"{OPTIONS['headroom']} {{value}}",
        RelaxationKind.HOST_MEMORY: _("nodes with {value} GiB of host memory, told with {option}"),
        RelaxationKind.CARD: _("as many {value}"),
        RelaxationKind.RESPONSE_LENGTH: _("responses of at most {value} tokens"),
        RelaxationKind.PROMPT_LENGTH: _("prompts of at most {value} tokens"),
    }
    forms = [
        _("{what} ({seconds} s a step, {hours} GPU-hours)").format(
            what=words[one.kind].format(value=one.value, option=OPTIONS["host_memory_gib"]),
            seconds=duration(one.seconds),
            hours=small(one.gpu_hours),
        )
        for one in answer.relaxations
    ]
    forms[:0] = _on_others(answer)
    if forms:
        yield Paragraph(text=titled(_("It would surely fit with"), clauses(forms)), level=1, further=1)
    elif answer.plan.lacking is not None:
        text = _(
            "No shorter responses, no other card, no host memory and no less headroom alone make it fit."
        )
        if answer.most_in_vain is not None:
            text = _(
                "No shorter responses, no other card, no host memory and no less headroom alone make it fit, "
                "nor do more GPUs, up to {where}."
            ).format(where=cluster_words(answer.most_in_vain))
        yield Paragraph(text=text, level=1, further=1)


def _on_others(answer: PlanAnswer) -> Iterator[str]:
    """The fewest GPUs on which the job fits, of those that were asked about or of more."""
    row, more = answer.fewest, answer.more
    where, least = ("", None) if row is None else (row_words(row), row.least)
    if row is None and more is not None:
        where, least = cluster_words(more.cluster), more.best
    if least is not None:
        yield _("{where} ({seconds} s a step, {hours} GPU-hours)").format(
            where=where, seconds=duration(least.time.seconds), hours=small(least.gpu_hours)
        )


def constraint_words(name: str) -> str:
    """A constraint in words; a phase stands for the memory that it lacks, by its own name."""
    words = {
        REFUSED: _("checks of the trainer"),
        START: _("start of the engine"),
        HOST: _("host memory"),
        DOUBT: _("what is not sure"),
    }
    return words.get(name, name)


def search_facts(plan: ClusterPlan) -> Iterator[Part]:
    """How much was looked at, what ruled settings out, and what the trainer refuses; nothing of no search."""
    if not plan.size:
        return
    if plan.stopped:
        text = _("Stopped after {looked} of {size} settings: this is the best so far.")
    elif plan.whole:
        text = _("All {size} settings were looked at.")
    else:
        text = _("{looked} of {size} settings were looked at, step by step: a better one may be left.")
    yield Paragraph(text=text.format(looked=count(plan.looked_at), size=count(plan.size)), further=1)
    if plan.rejected:
        failed = listed(f"{constraint_words(one.constraint)} {count(one.settings)}" for one in plan.rejected)
        yield Paragraph(text=titled(_("Ruled out first by"), failed), level=1, further=1)
    told = dict.fromkeys((one.code, one.message) for one in plan.refused)
    for refused, message in list(told)[:_REFUSALS]:
        yield Paragraph(text=user_text(titled(refused, message)), level=1, further=1)
