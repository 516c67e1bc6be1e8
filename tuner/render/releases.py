"""What is not known of a release: of one that is not bundled, and of one that nothing names."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.advise import Advice, Refusal, ReleaseRange
from tuner.consultation.result import Consultation
from tuner.language import _
from tuner.render.document.parts import Paragraph
from tuner.render.numbers import gib, peak, same_gib
from tuner.render.terminal import plain
from tuner.render.words import clauses, listed

if TYPE_CHECKING:
    from tuner.consultation.guessed_release import LinesElsewhere


def not_known(advice: Advice) -> str:
    """The fact, the range over what the release may do, and the lengths that fit whatever it does."""
    releases = advice.releases
    assert releases is not None
    least, most = releases.least, releases.most
    if most is least:
        text = _("what {release} does: the worst phase peaks at {peak} {name}")
    elif same_gib(least.estimate.worst.peak_bytes, most.estimate.worst.peak_bytes):
        text = _("what {release} does: the worst phase peaks at {peak} {name} and {most_name}")
    else:
        text = _("what {release} does: the worst phase peaks at {peak} {name} to {most_peak} {most_name}")
    text = text.format(
        release=releases.release,
        peak=gib(least.estimate.worst.peak_bytes),
        name=least.name,
        most_peak=gib(most.estimate.worst.peak_bytes),
        most_name=most.name,
    )
    return clauses([text, _lengths(releases, longest=advice.workload.batch.sequence_tokens)])


def _lengths(releases: ReleaseRange, *, longest: int) -> str:
    if releases.certain_tokens == longest:
        return _("it fits with each")
    if releases.mean_tokens is None:
        return _("no length of sequences fits with each")
    if releases.mean_tokens == longest:
        text = _("it fits with each if nothing else is on the card")
    else:
        text = _(
            "if nothing else is on the card, it fits with each while sequences average up to "
            "{mean_tokens:,} tokens"
        ).format(mean_tokens=releases.mean_tokens)
    if releases.certain_tokens is None:
        return text
    return _("{text}; else while they average up to {tokens:,}").format(
        text=text, tokens=releases.certain_tokens
    )


def against(advice: Advice) -> str:
    """As which release the job fits, and as which it does not."""
    releases = advice.releases
    assert releases is not None
    other = releases.against
    assert other is not None
    now, worst = advice.estimate.worst, other.estimate.worst
    text = _("{phase} peaks at {peak} of {capacity} {considered}").format(
        phase=now.phase.value,
        peak=peak(now.peak_bytes, now.interval),
        capacity=gib(advice.estimate.capacity_bytes),
        considered=releases.considered[0].name,
    )
    if worst.peak_bytes > other.estimate.capacity_bytes:
        if worst.phase is now.phase:
            text += _(", but at {peak} {other}").format(peak=gib(worst.peak_bytes), other=other.name)
        else:
            text += _(", but {phase} at {peak} {other}").format(
                phase=worst.phase.value, peak=gib(worst.peak_bytes), other=other.name
            )
    else:
        text += _(", but the job will not start {other}").format(other=other.name)
    return text


def guessed(answer: Consultation) -> Iterator[Paragraph]:
    """The sentence on a release that nothing names: among which ones it is guessed, and what settles it."""
    release = answer.guess
    if release is None:
        return
    from tuner.consultation.guessed_release import without_gap  # where nothing names a release

    among, version = release.plausible, f"{answer.loaded.trainer.name} {release.version}"
    if release.older:
        text = _("Nothing names the release: {version} is a guess among all up to {last}.")
    elif len(among) > 1:
        text = _("Nothing names the release: {version} is a guess among {first} to {last}.")
        if not without_gap(among, answer.loaded.trainer.bundled.versions):
            text = _("Nothing names the release: {version} is a guess among {listed}.")
    else:
        text = _("Nothing names the release: {version} is a guess by its keys.")
    said = text.format(version=version, first=among[0], last=among[-1], listed=", ".join(among))
    if release.between:
        text = _("{named}, which is no release: {version} is the nearest by its keys.")
        said = text.format(named=plain(release.between), version=version)
    yield Paragraph(text=_("{said} Give --release.").format(said=said), level=1)


def elsewhere(lines: "Sequence[LinesElsewhere]") -> Iterator[Paragraph]:
    """The lines of the block that Hydra refuses in releases that the launch may be of as well."""
    for one in lines:
        text = _("{releases} has no {keys}: leave the line out there, Hydra refuses it.")
        if one.had:
            text = _("{releases} has {keys} already: leave out the + there, Hydra refuses it.")
        said = text.format(releases=one.releases, keys=listed(map(plain, one.keys)))
        yield Paragraph(text=said, further=1)


def refused_text(refusals: Sequence[Refusal]) -> str:
    """By what a launch is refused in some of the releases that it may be of."""
    releases = list(dict.fromkeys(refusal.finding.only_in for refusal in refusals))
    codes = listed(dict.fromkeys(refusal.finding.rule.code for refusal in refusals))
    if len(releases) == 1:
        return _("refused by {codes} if the release is {releases}").format(codes=codes, releases=releases[0])
    return _("refused by {codes} in some of the releases that it may be of").format(codes=codes)
