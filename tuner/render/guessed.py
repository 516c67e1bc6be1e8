"""A release that nothing names, in words: that it is a guess, and what holds in some likely ones alone."""

from collections.abc import Iterator, Sequence

from tuner.advise import Refusal
from tuner.consultation.guessed_release import LinesElsewhere
from tuner.consultation.result import Consultation
from tuner.language import _
from tuner.render.document.parts import Paragraph
from tuner.render.terminal import plain
from tuner.render.words import listed


def guessed(answer: Consultation) -> Iterator[Paragraph]:
    """The sentence on a release that nothing names: among which ones it is guessed, and what settles it."""
    release = answer.guess
    if release is None:
        return
    among, version = release.plausible, f"{answer.loaded.trainer.name} {release.version}"
    if release.older:
        text = _("Nothing names the release: {version} is a guess among all up to {last}.")
    elif len(among) > 1:
        text = _("Nothing names the release: {version} is a guess among {first} to {last}.")
    else:
        text = _("Nothing names the release: {version} is a guess by its keys.")
    said = text.format(version=version, first=among[0], last=among[-1])
    yield Paragraph(text=_("{said} Give --verl-version.").format(said=said), level=1)


def elsewhere(lines: Sequence[LinesElsewhere]) -> Iterator[Paragraph]:
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
