"""What checks say of a launch where it rests on what nobody knows: open, and no fault of the launch."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.findings import Finding, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.tree import dotted
from tuner.inputs.user_input import AlternativeLaunch, OpenArgument
from tuner.language import _

_KEY = re.compile(r"\w+(?:\.\w+)+")  # in a message: what a check says that its finding comes from
_NAMED = 2  # keys in one message
_CONFIGURATION = "--config-name"  # open where the file that it names is not there: it may set any key


class FindingsOfWay(Struct, frozen=True, kw_only=True):
    """What checks say of the job that a script starts on another way."""

    way: AlternativeLaunch
    open_keys: frozenset[str]  # whose values on this way nobody knows
    read: Callable[
        [], Sequence[Finding] | None
    ]  # asked only where it matters; None of a job that nobody can read

    def is_without(self, finding: Finding) -> bool:
        """Whether a finding on the way that is read may not hold of this one."""
        if not self.open_keys.isdisjoint(finding.keys):
            return True
        findings = self.read()
        if findings is None:
            return self.changes_any(finding.keys)
        keys = set(finding.keys)
        return not any(
            other.rule == finding.rule and (keys.intersection(other.keys) or not keys) for other in findings
        )

    def changes_any(self, keys: Collection[str]) -> bool:
        """Whether one of these keys has another value on this way."""
        return any(key in keys for key, _here, _there in self.way.changes)


def with_open(
    findings: Sequence[Finding],
    settings: Settings,
    unsettled: Sequence[OpenArgument],
    ways: Sequence[FindingsOfWay],
    told_by_file: Collection[str] = (),
) -> Sequence[Finding]:
    """The findings, milder and with what is open where they rest on it; none of what a file sets unseen.

    Args:
        findings: of the job as it is read.
        settings: of that job.
        unsettled: arguments of the launch whose values nobody knows.
        ways: the findings of the other jobs that the script may start.
        told_by_file: keys that are set, to what only a file tells that a script has a program read.
    """
    of_file = [argument for argument in unsettled if argument.key in told_by_file]
    findings = [one for one in findings if not any(_rests_on(one, settings, it) for it in of_file)]
    return tuple(_with_open(finding, settings, unsettled, ways) for finding in findings)


def with_open_gpus(
    findings: Sequence[Finding], alone: Sequence[Finding], opened: OpenArgument, gpus: int
) -> Sequence[Finding]:
    """The findings, open where they refuse the job on the GPUs that are assumed and not on one of them.

    Args:
        findings: of the job as it is read.
        alone: of the same job on one GPU.
        opened: what decides how many there are.
        gpus: that are assumed.
    """
    everywhere = {finding.rule.code for finding in alone}
    return tuple(
        finding
        if finding.severity is not Severity.ERROR or finding.rule.code in everywhere
        else _open(finding, _of_gpus(finding, opened, gpus), opened.location)
        for finding in findings
    )


def with_own_gpus(
    findings: Sequence[Finding], own: Sequence[Finding], number: int, gpus: int
) -> Sequence[Finding]:
    """The findings, milder where they refuse the job on the GPUs of an option and not on those of the launch.

    Args:
        findings: of the job as it is read.
        own: of the same job on as many as the launch asks for.
        number: that it asks for.
        gpus: that the option says.
    """
    refused = {(one.rule.code, one.keys) for one in own if one.severity is Severity.ERROR}
    text = _("{keys}: {summary}, on {gpus} GPUs of a node; the launch itself asks for {number}")
    return tuple(
        finding
        if finding.severity is not Severity.ERROR or (finding.rule.code, finding.keys) in refused
        else _open(
            finding,
            text.format(keys=_keys(finding), summary=_(finding.rule.summary), gpus=gpus, number=number),
            finding.location,
        )
        for finding in findings
    )


def _of_gpus(finding: Finding, opened: OpenArgument, gpus: int) -> str:
    return _("{keys}: {summary}, on {gpus} GPUs; {text} decides how many there are ({place})").format(
        keys=_keys(finding),
        summary=_(finding.rule.summary),
        gpus=gpus,
        text=opened.text,
        place=opened.location,
    )


def _with_open(
    finding: Finding,
    settings: Settings,
    unsettled: Sequence[OpenArgument],
    ways: Sequence[FindingsOfWay],
) -> Finding:
    argument = next((one for one in unsettled if _rests_on(finding, settings, one)), None)
    if argument is not None:
        if argument.key == _CONFIGURATION and finding.rule.unread and settings.is_set(finding.keys[0]):
            # What is not read does nothing whatever a file sets; open is whether that sets the other key.
            return replace(finding, severity=_milder(finding))
        return _open(finding, _of_argument(finding, argument), argument.location)
    missing = any(not settings.is_set(key) for key in finding.keys)
    if finding.severity is not Severity.ERROR and not missing:
        return finding
    for one in ways:
        decides = finding.severity is Severity.ERROR or one.changes_any(finding.keys)
        if decides and one.is_without(finding):
            return _open(finding, _of_way(finding, one.way), one.way.location)
    return finding


def _rests_on(finding: Finding, settings: Settings, argument: OpenArgument) -> bool:
    """Whether an argument of unknown value may decide what a finding is about."""
    if not finding.keys:
        return False
    if argument.key in ("", _CONFIGURATION):  # it may set any key that nobody else does
        unset = any(not settings.is_set(key) for key in finding.keys)
        return unset or (argument.key == _CONFIGURATION and any(_is_of_structure(finding, settings)))
    read = {dotted(path) for key in finding.keys for path in settings.path_chain(key)}
    if argument.key in read:
        return True
    misspelt = not {unknown.key for unknown in settings.unknown}.isdisjoint(finding.keys)
    return not misspelt and argument.key in _KEY.findall(finding.message)  # which names the nearest key there


def _is_of_structure(finding: Finding, settings: Settings) -> Iterator[bool]:
    """Whether a finding is about which keys there are, which a configuration may add to."""
    unknown = {one.key for one in settings.unknown}
    for key in finding.keys:
        origin = settings.origin(key)
        yield key in unknown or (origin is not None and origin.text.startswith("+"))


def _open(finding: Finding, message: str, location: Location | None) -> Finding:
    """A finding of which it is open whether it holds: nothing is to be pasted for it."""
    return replace(
        finding,
        message=message,
        severity=_milder(finding),
        location=location,
        overrides=(),
        proposal=None,
        notes=(),
        set_aside=False,
    )


def _milder(finding: Finding) -> Severity:
    return Severity.WARNING if finding.severity is Severity.ERROR else finding.severity


def _of_argument(finding: Finding, argument: OpenArgument) -> str:
    return _("{keys}: {summary}, if left out; {open_key} is {text} ({place})").format(
        keys=_keys(finding),
        summary=_(finding.rule.summary),
        open_key=argument.key or _("further arguments"),
        text=argument.text,
        place=argument.location,
    )


def _of_way(finding: Finding, way: AlternativeLaunch) -> str:
    if way.is_program:
        form = _("{keys}: {summary}, only if {test} fails")
        if not way.holds:
            form = _("{keys}: {summary}, only if {test} succeeds")
    else:
        form = _("{keys}: {summary}, only if not {test}")
        if not way.holds:
            form = _("{keys}: {summary}, only if {test}")
    text = form.format(keys=_keys(finding), summary=_(finding.rule.summary), test=way.test)
    if not way.name:
        return text
    return _("{remark}; {name}=VALUE behind the script settles it").format(remark=text, name=way.name)


def _keys(finding: Finding) -> str:
    about = finding.keys[:1] if finding.rule.unread else finding.keys  # behind it stands what is read instead
    named = about[:_NAMED]
    rest = len(about) - len(named)
    words = [*named, _("{count} more").format(count=rest)] if rest else named
    return _(", ").join(words) or _("the launch")
