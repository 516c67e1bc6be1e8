"""A release that nothing names: what is said of a launch holds in every one that it may be, or says in which.

What the model proposes has to serve its goal in each of them too, as it is read there. A launch was written
for a release that runs it. So a release that refuses more of the launch than the guessed one does is no
likelier, and is not asked.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise.numerics import weighs_by_cut
from tuner.advise.refusals import only_in
from tuner.findings import Finding
from tuner.language import _
from tuner.override_text import override_key
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Loaded
from tuner.workload import Workload


class ReadElsewhere(Protocol):
    """A launch as a release reads it that it may be of."""

    @property
    def release_findings(self) -> Sequence[Finding]:
        """What checks of that release say."""

    @property
    def workload(self) -> Workload:
        """What the release makes of it."""


class GuessedRelease:
    """The releases that a launch may be of, and what their checks say of it, asked where that matters.

    Args:
        release: the guess.
        trainer: its name, for messages.
        versions: all releases of it, oldest first.
        read: the launch with further overrides on a release; None where it cannot be read.
    """

    def __init__(
        self,
        release: ReleaseChoice,
        trainer: str,
        versions: Sequence[str],
        read: Callable[[str, tuple[str, ...]], ReadElsewhere | None],
    ) -> None:
        self._release, self._read = release, read
        self._read_as_it_is = dict[str, ReadElsewhere | None]()
        self._words = ReleaseWords(trainer=trainer, versions=tuple(versions), older=release.older)

    def serving(self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]) -> str:
        """The releases in which overrides serve, where these are not all that are likely; else nothing.

        That a release has not the keys of the overrides is told beside them, and not counted here.

        Args:
            overrides: that serve in the guessed release.
            serves: whether the second workload is better than the first.
        """

        def helps(version: str) -> bool:
            before, after = self._as_it_is(version), self._read(version, overrides)
            if before is None or after is None:
                return False
            new = _new_refusals(before.release_findings, after.release_findings)
            if new:
                of_keys = all(finding.rule.about_keys for finding in new)
                return of_keys and not self._has_it_so(before.workload, overrides)
            return serves(before.workload, after.workload)

        likely = self._likely_releases
        holding = {self._release.version, *filter(helps, likely)}
        among = [
            version for version in self._release.plausible if version in (self._release.version, *likely)
        ]
        return "" if len(holding) == len(among) else self._words.of(holding, among)

    def _has_it_so(self, workload: Workload, overrides: tuple[str, ...]) -> bool:
        """Whether in another release a job already is what overrides make of it in the guessed one."""
        from tuner.advise.differences import changes, merged  # few launches are guessed and lack a key

        guessed, after = self._as_it_is(self._release.version), self._read(self._release.version, overrides)
        if guessed is None or after is None or after.workload == guessed.workload:
            return False
        return merged(workload, changes(guessed.workload, after.workload)) == workload

    @cached_property
    def averages_elsewhere(self) -> bool:
        """Whether one of the other releases that are likely weighs tokens by how sequences are cut."""
        others = map(self._as_it_is, self._likely_releases)
        return any(other is not None and weighs_by_cut(other.workload) for other in others)

    def with_conditions(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The findings; what does not hold in every release that is as likely is milder, and says in which.

        Args:
            findings: on the guessed release.
        """
        return tuple(self._with_condition(finding) for finding in findings)

    @property
    def running(self) -> ReleaseChoice | None:
        """The guess among the releases that refuse nothing of the launch; None where there is none.

        A launch that lies in a file was run: a release that refuses its keys or its values is not the one.
        What every release refuses tells none of them apart.
        """
        if self._release.older or self._release.between or self._release.doubted:
            return None
        read = {version: self._findings(version) for version in self._release.other_releases}
        refused = {version: _refusals(theirs) for version, theirs in read.items() if theirs is not None}
        own = _refusals(self._findings_on_guess)
        common = own.intersection(*refused.values())
        left = [version for version, theirs in refused.items() if theirs == common != own]
        if not left:
            return None
        nearest = min(left, key=self._distance)
        reason = _("the nearest that refuses nothing of the launch")
        if common:
            reason = _("the nearest that refuses no more of the launch than all do")
        return replace(self._release, version=nearest, reason=reason, plausible=tuple(left))

    def _with_condition(self, finding: Finding) -> Finding:
        releases = self._conditions.get(_identity(finding))
        open_anyway = finding.rule.refuses and not finding.refuses
        if releases is None or open_anyway:
            return finding
        milder = only_in(finding, releases)
        if finding.refuses and not finding.rule.about_keys and self._is_taken(finding.overrides):
            return milder
        return replace(milder, overrides=(), set_aside=finding.refuses)

    @cached_property
    def _conditions(self) -> dict[object, str]:
        """The findings on the launch as it is that do not hold everywhere, with the releases they hold in."""
        conditions, likely = dict[object, str](), {self._release.version, *dict(self._likely)}
        for finding in self._findings_on_guess:
            unknown = self._release.older and finding.refuses and finding.rule.about_keys
            holding = [version for version, theirs in self._likely if _holds(finding, theirs)]
            if unknown or len(holding) < len(self._likely):
                # a release that refuses more of the launch is less likely, and no exception from the words
                less_likely = {
                    it for it in self._release.plausible if it not in likely and self._has(it, finding)
                }
                among = [it for it in self._release.plausible if it in likely | less_likely]
                some = {self._release.version, *holding, *less_likely}
                conditions[_identity(finding)] = self._words.of(some, among)
        return conditions

    def _has(self, version: str, finding: Finding) -> bool:
        """Whether a finding holds in a release as well."""
        theirs = self._findings(version)
        return theirs is not None and _holds(finding, theirs)

    @cached_property
    def _findings_on_guess(self) -> Sequence[Finding]:
        return self._findings(self._release.version) or ()

    def _findings(self, version: str, overrides: tuple[str, ...] = ()) -> Sequence[Finding] | None:
        """What checks of a release say with overrides; None where it cannot be read."""
        reading = self._read(version, overrides) if overrides else self._as_it_is(version)
        return None if reading is None else reading.release_findings

    def _as_it_is(self, version: str) -> ReadElsewhere | None:
        """The launch on a release, read once; None where it cannot be read."""
        if version not in self._read_as_it_is:
            self._read_as_it_is[version] = self._read(version, ())
        return self._read_as_it_is[version]

    @cached_property
    def _likely(self) -> tuple[tuple[str, Sequence[Finding]], ...]:
        """The findings on the other releases: on the farthest alone where nothing differs there."""
        refused = _refused(self._findings_on_guess)
        asked = self._findings_where_likely(refused) if self._findings_on_guess else iter(())
        farthest = next(asked, None)
        if farthest is None:
            return ()
        if not refused and all(_holds(finding, farthest[1]) for finding in self._findings_on_guess):
            return (farthest,)
        return (farthest, *asked)

    def _is_taken(self, overrides: tuple[str, ...]) -> bool:
        """Whether no likely release refuses more of the launch with overrides that lift a refusal."""
        if not overrides or (self._release.older and any(text.startswith("+") for text in overrides)):
            return False
        for version, without in self._likely:
            findings = self._findings(version, overrides)
            if findings is None or _refused(findings) > _refused(without):
                return False
        return True

    @cached_property
    def _likely_releases(self) -> tuple[str, ...]:
        """The other releases that refuse no more than the guessed one, the farthest first."""
        asked = self._findings_where_likely(_refused(self._findings_on_guess))
        return tuple(version for version, _findings in asked)

    def _findings_where_likely(self, refused: int) -> Iterator[tuple[str, Sequence[Finding]]]:
        """The findings on the other releases that refuse no more, the farthest first."""
        for version in sorted(self._release.other_releases, key=self._distance, reverse=True):
            findings = self._findings(version)
            # what lies between releases may have the keys of each: none of them has to take them all
            if findings is not None and (self._release.between or _refused(findings) <= refused):
                yield version, findings

    def _distance(self, version: str) -> int:
        plausible = self._release.plausible
        return abs(plausible.index(version) - plausible.index(self._release.version))


class LinesElsewhere(Struct, frozen=True, kw_only=True):
    """Lines of a block that Hydra refuses in some of the releases that a launch may be of."""

    keys: tuple[str, ...]
    releases: str
    had: bool  # these have the keys already, which the lines add


def lines_elsewhere(
    release: ReleaseChoice, loaded: Loaded, overrides: Sequence[str]
) -> tuple[LinesElsewhere, ...]:
    """The lines of a block that some of the likely releases refuse, by what is wrong with them there."""
    by_releases, trainer = dict[tuple[str, bool], list[str]](), loaded.trainer
    in_words = ReleaseWords(trainer=trainer.name, versions=trainer.bundled.versions, older=release.older)
    for text in overrides:
        key, adds = override_key(text), text.startswith("+")
        having = loaded.releases_with(key)
        refusing = {version for version in release.other_releases if (version in having) is adds}
        if having and refusing and not text.startswith(("++", "~")):
            words = in_words.of(refusing, release.plausible)
            by_releases.setdefault((words, adds), []).append(key)
    return tuple(
        LinesElsewhere(keys=tuple(keys), releases=words, had=adds)
        for (words, adds), keys in by_releases.items()
    )


class ReleaseWords(Struct, frozen=True, kw_only=True):
    """How some of the releases that a launch may be of are called: ``verl 0.6.0 or newer``.

    Releases in between that it cannot be of are never meant as well: where there are some, all are named.
    """

    trainer: str  # its name
    versions: tuple[str, ...]  # all releases of it, oldest first
    older: bool  # whether those before all that are likely are likely as well

    def of(self, some: Collection[str], among: Sequence[str]) -> str:
        """The words.

        Args:
            some: of the likely releases.
            among: all that are likely, oldest first.
        """
        places = [place for place, version in enumerate(among) if version in some]
        first, last = places[0], places[-1]
        # with the next one on either side, so that "or older" ends where it does not hold any more
        whole = len(places) == last - first + 1
        closed = whole and without_gap(among[max(0, first - 1) : last + 2], self.versions)
        words = ", ".join(among[place] for place in places)
        if closed and last == len(among) - 1 and (first < last or self.older):
            words = _("{release} or newer").format(release=among[first])
        elif closed and first == 0 and first < last:
            words = _("{release} or older").format(release=among[last])
        elif whole and first < last and without_gap(among[first : last + 1], self.versions):
            words = _("{first} to {last}").format(first=among[first], last=among[last])
        return f"{self.trainer} {words}"


def without_gap(some: Sequence[str], versions: Sequence[str]) -> bool:
    """Whether some releases, oldest first, are all that there are between the first and the last of them."""
    start = versions.index(some[0]) if some and some[0] in versions else 0
    return tuple(some) == tuple(versions[start : start + len(some)])


def _identity(finding: Finding) -> object:
    """What stays of a finding from reading to reading."""
    return finding.rule.code, finding.keys


def _refusals(findings: Sequence[Finding]) -> frozenset[object]:
    """What refuses a launch."""
    return frozenset(_identity(finding) for finding in findings if finding.refuses)


def _refused(findings: Sequence[Finding]) -> int:
    """How much of a launch is refused: keys, and findings that name none."""
    refusals = [finding for finding in findings if finding.refuses]
    keys = {key for finding in refusals for key in finding.keys}
    return len(keys) + sum(not finding.keys for finding in refusals)


def _new_refusals(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """What refuses a launch with overrides alone."""
    known = {_identity(finding) for finding in before if finding.refuses}
    return [finding for finding in after if finding.refuses and _identity(finding) not in known]


def _holds(finding: Finding, theirs: Sequence[Finding]) -> bool:
    """Whether another release's findings have one like it; a refusal is borne out by any of the same keys."""
    keys = set(finding.keys)
    return any(
        (other.rule == finding.rule and (not keys or not keys.isdisjoint(other.keys)))
        or (other.refuses and not keys.isdisjoint(other.keys))
        for other in theirs
        if other.refuses or not finding.refuses
    )
