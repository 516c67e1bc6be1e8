"""Execution paths of a script, by tests that nobody knows, as far as they lead to another job.

A script is followed once with all of them open: what two branches leave different is unknown then. The tests
that unknown values of a launch rest on, or the launch itself, are the ones that matter. The way that is read
is the one that the script goes where everything it does not say is empty, as in an environment without its
variables; and for each such test the script is followed on the other way as well. That is one more time for
each test, not for each combination of them.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError
from tuner.inputs.shell.launches import Launch
from tuner.inputs.shell.undecided_parts import UndecidedPart

_MOST_ROUNDS = 8  # in which tests come up that others lead to
_MOST_TESTS = 12  # that are decided; what further ones decide stays unknown
_MOST_TRIED = 24  # of which one at least has to end otherwise for a job to start


class FollowedScript(Protocol):
    """A script that was followed, with some tests decided."""

    @property
    def launches(self) -> tuple[Launch, ...]:
        """What it starts."""

    @property
    def hinges(self) -> tuple[UndecidedPart, ...]:
        """The tests, still open, that decide what it starts."""


Follow = Callable[[Mapping[str, bool]], FollowedScript]
"""Follows the script once more, with tests that are taken to hold or not."""


class ExecutionPath(Struct, frozen=True, kw_only=True):
    """Where a script goes if one test ends otherwise than it is taken to."""

    test: UndecidedPart
    holds: bool  # on this way
    launches: tuple[Launch, ...]


class ExecutionPaths(Struct, frozen=True, kw_only=True):
    """The path of a script that is read, and those beside it."""

    decisions: Mapping[str, bool]  # how the tests end on the path that is read
    launches: tuple[Launch, ...]
    others: tuple[ExecutionPath, ...]
    forced: tuple[UndecidedPart, ...]  # tests that are taken to end as they have to for a launch


class _Execution(Struct, frozen=True, kw_only=True):
    """A script that was followed with every test decided that matters."""

    script: FollowedScript
    tests: dict[str, UndecidedPart]
    decisions: dict[str, bool]

    def with_other_outcome(self, test: str, follow: Follow) -> "_Execution":
        """An execution of the script in which one test ends otherwise."""
        decisions = {**self.decisions, test: not self.decisions[test]}
        return _with_decisions(
            _Execution(script=follow(decisions), tests=self.tests, decisions=decisions), follow
        )


def execution_paths(first: FollowedScript, follow: Follow) -> ExecutionPaths | None:
    """The path of a script that is read, with the others; None where no test matters, or none is enough.

    Args:
        first: the script, followed with every test open.
        follow: follows it again.
    """
    if not first.hinges:
        return None
    try:
        as_typed = _with_decisions(_Execution(script=first, tests={}, decisions={}), follow)
        read = _launching(as_typed, first, follow)
        if read is None:
            return None
        executions = {test: read.with_other_outcome(test, follow) for test in read.tests}
    except InputError:  # it goes on and on
        return None
    others = tuple(
        ExecutionPath(test=read.tests[test], holds=other.decisions[test], launches=other.script.launches)
        for test, other in executions.items()
    )
    forced = tuple(test for name, test in read.tests.items() if read.decisions[name] is not test.if_empty)
    launches = _all_launches(first, read.script, others)
    if forced:  # a job that starts only if a test ends as it need not is no certain one
        surely = {launch.location for launch in as_typed.script.launches}
        launches = tuple(
            launch if launch.location in surely else replace(launch, certain=False) for launch in launches
        )
    return ExecutionPaths(decisions=read.decisions, launches=launches, others=others, forced=forced)


def _launching(as_typed: _Execution, first: FollowedScript, follow: Follow) -> _Execution | None:
    """The script with as few tests as can be ending otherwise than as typed, so that it starts its jobs.

    These are what it starts with every test open, wherever no test stands around it: a script that ends for
    want of a file, which its own earlier step writes, is meant to go on. Where so few are not enough for all
    of them, it is the script that starts a job at least; None where there is none.
    """
    wanted = {launch.location for launch in first.launches if launch.certain}
    tried = 0
    starting: _Execution | None = None
    executions = [as_typed]
    for execution in executions:
        launches = execution.script.launches
        if launches and wanted <= {launch.location for launch in launches}:
            return execution
        starting = starting or (execution if launches else None)
        for test in execution.tests:
            tried += 1
            if tried > _MOST_TRIED:
                return starting
            executions.append(execution.with_other_outcome(test, follow))
    return starting


def _with_decisions(so_far: _Execution, follow: Follow) -> _Execution:
    """Decide what matters as if all that is not known were empty, until nothing more comes up."""
    for _ in range(_MOST_ROUNDS):
        new: dict[str, UndecidedPart] = {}
        for test in so_far.script.hinges:
            if test.text not in so_far.decisions:
                new.setdefault(test.text, test)  # the first place of several
        new = dict(list(new.items())[: _MOST_TESTS - len(so_far.decisions)])
        if not new:
            break
        decisions = {**so_far.decisions, **{name: test.if_empty for name, test in new.items()}}
        so_far = _Execution(script=follow(decisions), tests={**so_far.tests, **new}, decisions=decisions)
    return so_far


def _all_launches(
    first: FollowedScript, read: FollowedScript, paths: tuple[ExecutionPath, ...]
) -> tuple[Launch, ...]:
    """The launches of the path that is read, and those that only others have, in the script's order."""
    by_place = {launch.location: launch for launch in read.launches}
    elsewhere = {launch.location: launch for path in paths for launch in path.launches}
    for launch in first.launches:
        if launch.location not in by_place:
            other = elsewhere.get(launch.location, launch)
            if not any(same_job(other, one) for one in read.launches):
                by_place[launch.location] = replace(other, on_default_path=False)
    order = [launch.location for launch in first.launches]
    rest = [place for place in by_place if place not in order]
    return tuple(by_place[place] for place in (*order, *rest) if place in by_place)


def same_job(one: Launch, two: Launch) -> bool:
    """Whether two launches start the same."""
    return settings(one) == settings(two)


def settings(launch: Launch) -> dict[str, str]:
    """What a launch says, by key: the last of several overrides of one key counts."""
    values = {"": launch.program}
    if launch.processes.per_node is not None:
        values["--nproc_per_node"] = str(launch.processes.per_node.value)
    for argument in launch.arguments:
        key, _equals, value = str(argument.text).partition("=")
        values[key.lstrip("+")] = value
    return values
