"""The last line of ``tuner check``: how much was checked, what was found, and what it was judged for."""

from tuner.check.baselines import in_words
from tuner.consultation.cluster import ChosenGpu
from tuner.language import _, ngettext
from tuner.render.checked.finding_text import FIX_MARK
from tuner.render.numbers import gib
from tuner.render.words import clauses, counted, listed, with_note
from tuner.review.input_findings import SilencedBy
from tuner.review.review import Review
from tuner.review.totals import Fixable, Totals

_NAMED = 3  # releases, engines or cards in one line


def summary(review: Review, card: ChosenGpu) -> str:
    """The whole review in one line.

    Args:
        review: what was checked.
        card: of the options, for inputs of which none could be judged.
    """
    totals = review.totals
    if totals.unusable and totals.unusable == len(review.inputs):
        return _inputs(review)
    findings = listed(counted(count, severity) for severity, count in review.counts.items())
    return clauses(
        [
            _("{checked}: {findings}").format(
                checked=_inputs(review), findings=_with_rest(findings or _("no findings"), review)
            ),
            *([_several(totals.releases)] if totals.releases else []),
            *_guessed(totals, len(review.inputs) - totals.unusable),
            *([_several(totals.engines)] if totals.engines else []),
            _cards(totals) or _for_card(card.gpu.name, card.gpu.capacity_bytes, card.reason, card.assumed),
        ]
    )


def _inputs(review: Review) -> str:
    unreadable, skipped = review.totals.unusable, len(review.skipped)
    if review.pasted:
        return _("the command cannot be used") if unreadable else _("the command is checked")
    files = len(review.inputs) - unreadable
    parts = [ngettext("{files} file checked", "{files} files checked", files).format(files=files)]
    if unreadable:
        parts.append(_("{unreadable} unreadable").format(unreadable=unreadable))
    if skipped:
        parts.append(_("{skipped} skipped as no configuration").format(skipped=skipped))
    return listed(parts)


def _with_rest(findings: str, review: Review) -> str:
    """The number of findings, with what is not among them and what can be fixed."""
    totals = review.totals
    by_comments, left_out = totals.silenced[SilencedBy.COMMENT], totals.left_out
    fixable, untried, unsafe = (totals.fixable[kind] for kind in Fixable)
    words = [
        _("{count} ignored by comments").format(count=by_comments) if by_comments else "",
        _("{count} not asked for").format(count=left_out) if left_out else "",
        _("{mark} {count} that --fix fixes").format(mark=FIX_MARK, count=fixable) if fixable else "",
        _("{count} untried for --fix").format(count=untried) if untried else "",
        _("{count} for --unsafe-fixes").format(count=unsafe) if unsafe else "",
        in_words(review.baselines),
    ]
    rest = listed(filter(None, words))
    return with_note(findings, rest) if rest else findings


def _several(reasons: dict[str, str]) -> str:
    """Releases or rollout engines, each once, with the reason where there is one alone."""
    if len(reasons) == 1:
        ((name, reason),) = reasons.items()
        return with_note(name, reason)
    rest = len(reasons) - _NAMED
    more = [ngettext("{count} more", "{count} more", rest).format(count=rest)] if rest > 0 else []
    return listed([*list(reasons)[:_NAMED], *more])


def _guessed(totals: Totals, inputs: int) -> list[str]:
    """The words on a release that nothing names, and what would."""
    if not totals.guessed:
        return []
    text = _("nothing names the release: it is a guess, give --release")
    if totals.guessed < inputs:
        text = ngettext(
            "nothing names the release of {count} of them: it is a guess, give --release",
            "nothing names the releases of {count} of them: they are guesses, give --release",
            totals.guessed,
        ).format(count=totals.guessed)
    return [text]


def _cards(totals: Totals) -> str:
    return listed(
        _for_card(gpu.name, gpu.memory_bytes, gpu.reason, gpu.assumed) for gpu in totals.cards.values()
    )


def _for_card(name: str, capacity_bytes: int, reason: str, assumed: bool) -> str:
    gpu = _("{gpu} with {capacity}").format(gpu=name, capacity=gib(capacity_bytes))
    if assumed and reason == _("assumed"):
        return _("for an {gpu}, since no GPU was named and none was found: give --gpu NAME").format(gpu=gpu)
    return _("for {gpu} ({reason})").format(gpu=gpu, reason=reason)
