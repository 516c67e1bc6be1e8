"""The ways that a script may go by tests that nobody knows, as far as they lead to another job.

A script is followed once with all of them open: what two branches leave different is unknown then. The tests
that unknown values of a launch rest on, or the launch itself, are the ones that matter. The way that is read
is the one that the script goes where everything it does not say is empty, as in an environment without its
variables; and for each such test the script is followed on the other way as well. That is one more time for
each test, not for each combination of them.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError
from tuner.inputs.shell.launches import Launch
from tuner.inputs.shell.undecided_parts import UndecidedPart

if TYPE_CHECKING:
    from tuner.inputs.script import Script

_MOST_ROUNDS = 8  # in which tests come up that others lead to
_MOST_TESTS = 12
_MOST_TRIED = 24

Follow = Callable[[Mapping[str, bool]], "Script"]
"""Follows the script once more, with tests that are taken to hold or not."""


class Way(Struct, frozen=True, kw_only=True):
    """Where a script goes if one test ends otherwise than it is taken to."""

    test: UndecidedPart
    holds: bool  # on this way
    launches: tuple[Launch, ...]


class _Settled(Struct, frozen=True, kw_only=True):
    """A script that was followed with every test decided that matters."""

    script: "Script"
    tests: dict[str, UndecidedPart]
    decisions: dict[str, bool]

    def other(self, test: str, follow: Follow) -> "_Settled":
        """The same with one test ending otherwise."""
        decisions = {**self.decisions, test: not self.decisions[test]}
        return _settled(_Settled(script=follow(decisions), tests=self.tests, decisions=decisions), follow)


def with_ways(first: "Script", follow: Follow) -> "Script":
    """A script on the way that is read, with the other ways; as it is where no test matters.

    Args:
        first: the script, followed with every test open.
        follow: follows it again.
    """
    if not first.hinges:
        return first
    try:
        read = _starting(_settled(_Settled(script=first, tests={}, decisions={}), follow), follow)
        if read is None:
            return first
        others = {test: read.other(test, follow) for test in list(read.tests)[:_MOST_TESTS]}
    except InputError:  # it goes on and on
        return first
    ways = tuple(
        Way(test=read.tests[test], holds=other.decisions[test], launches=other.script.launches)
        for test, other in others.items()
    )
    forced = tuple(test for name, test in read.tests.items() if read.decisions[name] is not test.if_empty)
    launches = _all_launches(first, read.script, ways)
    if forced:  # a job that starts only if a test ends as it need not is no certain one
        launches = tuple(replace(launch, certain=False) for launch in launches)
    return replace(read.script, launches=launches, ways=ways, forced=forced)


def _starting(as_typed: _Settled, follow: Follow) -> _Settled | None:
    """The script with as few tests as can be ending otherwise than as typed, so that it starts a job.

    None where so few are not enough.
    """
    tried = 0
    ways = [as_typed]
    for way in ways:
        if way.script.launches:
            return way
        for test in way.tests:
            tried += 1
            if tried > _MOST_TRIED:
                return None
            ways.append(way.other(test, follow))
    return None


def _settled(so_far: _Settled, follow: Follow) -> _Settled:
    """Decide what matters as if all that is not known were empty, until nothing more comes up."""
    for _ in range(_MOST_ROUNDS):
        new: dict[str, UndecidedPart] = {}
        for test in so_far.script.hinges:
            if test.text not in so_far.decisions:
                new.setdefault(test.text, test)  # the first place of several
        if not new:
            break
        decisions = {**so_far.decisions, **{name: test.if_empty for name, test in new.items()}}
        so_far = _Settled(script=follow(decisions), tests={**so_far.tests, **new}, decisions=decisions)
    return so_far


def _all_launches(first: "Script", read: "Script", ways: tuple[Way, ...]) -> tuple[Launch, ...]:
    """The launches of the way that is read, and those that only other ways have, in the script's order."""
    by_place = {launch.location: launch for launch in read.launches}
    elsewhere = {launch.location: launch for way in ways for launch in way.launches}
    for launch in first.launches:
        if launch.location not in by_place:
            other = elsewhere.get(launch.location, launch)
            if not any(same_job(other, one) for one in read.launches):
                by_place[launch.location] = replace(other, typed=False)
    order = [launch.location for launch in first.launches]
    rest = [place for place in by_place if place not in order]
    return tuple(by_place[place] for place in (*order, *rest) if place in by_place)


def same_job(one: Launch, two: Launch) -> bool:
    """Whether two launches start the same."""
    return settings(one) == settings(two)


def settings(launch: Launch) -> dict[str, str]:
    """What a launch says, by key: the last of several overrides of one key counts."""
    said = {"": launch.program}
    if launch.processes.per_node is not None:
        said["--nproc_per_node"] = str(launch.processes.per_node.value)
    for argument in launch.arguments:
        key, _equals, value = str(argument.text).partition("=")
        said[key.lstrip("+")] = value
    return said
