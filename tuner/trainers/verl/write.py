"""Writes the change of a workload as overrides in a release's own spelling."""

from typing import Any

from msgspec.structs import replace

from tuner.errors import TunerError
from tuner.inputs.settings import Settings
from tuner.trainers.verl.agreement import following, settled
from tuner.trainers.verl.read import read
from tuner.trainers.verl.source import Source, source_of
from tuner.trainers.verl.statements import Statement, statements
from tuner.workload import Workload

_ROUNDS = 2  # a later assignment can undo an earlier one through an interpolation; once is enough to mend it


class NotExpressible(ValueError):  # noqa: N818 - the name says what the proposal is
    """No overrides of this release turn the settings into the proposed workload."""


def write_overrides(
    before: Workload, after: Workload, settings: Settings, *, version: str
) -> tuple[str, ...]:
    """The fewest overrides that make the release read ``after`` where it reads ``before``.

    A key that already follows another one is not written. ``+`` marks keys that the settings lack.
    What a release does of its own accord need not agree, see :mod:`tuner.trainers.verl.agreement`.

    Args:
        before: what the release reads from the settings.
        after: what it is to read.
        settings: the configuration that the overrides will be added to.
        version: the release.

    Raises:
        NotExpressible: the release has no key for the change, or reads something else from it.
    """
    draft = _Draft(after, settings, version)
    free = {f"head.{name}" for name in following(before, after)}
    current = before
    for _ in range(_ROUNDS):
        present = _values(draft.source, current)
        for statement in list(statements(draft.source, after)):
            if statement.field not in free and present.get(statement.field) != statement.value:
                draft.assign(statement)
                current = draft.read()
                present = _values(draft.source, current)
        if current == settled(before, after, current, draft.source):
            draft.keep_log_probs_dynamic()
            return draft.overrides(changes=before != after)
    raise NotExpressible(f"verl {version} cannot be set to {_differences(draft.source, current, after)}")


class _Draft:
    """Settings with the overrides so far."""

    def __init__(self, after: Workload, settings: Settings, version: str) -> None:
        self._original = settings
        self._version = version
        self._after = after
        self._written: dict[str, Any] = {}
        self.source = source_of(settings, version)

    def assign(self, statement: Statement) -> None:
        """Set what a statement asks for, where the settings do not say so already."""
        for meaning, value in statement.assignments:
            key = self.source.key(meaning)
            if key is None:
                raise NotExpressible(f"verl {self._version} has no key for {statement.field}")
            if self.source.settings.get(key) != value:
                self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        self._written[key] = value
        self.source = replace(self.source, settings=self.source.settings.with_value(key, value))

    def read(self) -> Workload:
        """The workload so far."""
        critic = self._after.critic
        try:
            return read(
                self.source.settings,
                version=self._version,
                model=self._after.model,
                critic_model=None if critic is None else critic.model,
                cluster=self._after.cluster,
                engine_version=self._after.rollout.engine_version,
            )
        except TunerError as error:
            raise NotExpressible(str(error)) from error

    def keep_log_probs_dynamic(self) -> None:
        """Since 0.8 the actor's flag holds for both, and verl asserts that the other one is equal."""
        switch, follower = self.source.key("actor.dynamic"), self.source.key("log_prob.dynamic")
        if self.source.engine_workers and switch in self._written and follower is not None:
            value = self._written[switch]
            if self.source.settings.get(follower) != value:
                self._set(follower, value)

    def overrides(self, *, changes: bool) -> tuple[str, ...]:
        """The overrides, in the order they were found.

        Raises:
            NotExpressible: something ``changes``, and there is nothing to set for it.
        """
        if changes and not self._written:
            raise NotExpressible(f"verl {self._version} has no key for this change")
        return tuple(
            f"{'' if key in self._original else '+'}{key}={_spelled(value)}"
            for key, value in self._written.items()
        )


def _values(source: Source, workload: Workload) -> dict[str, Any]:
    return {statement.field: statement.value for statement in statements(source, workload)}


def _spelled(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(_spelled(item) for item in value)}]"
    return str(value)


def _differences(source: Source, current: Workload, after: Workload) -> str:
    present = _values(source, current)
    fields = [field for field, value in _values(source, after).items() if present.get(field) != value]
    return ", ".join(fields) or "a field that has no key"
