"""Writes the change of a workload as overrides in a release's own spelling."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from tuner.errors import TunerError
from tuner.findings import Written
from tuner.inputs.override_syntax import override
from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.override_text import ADDS
from tuner.trainers.verl.fields import head as heads
from tuner.trainers.verl.parts import WorkloadPart, parts
from tuner.trainers.verl.read import read
from tuner.trainers.verl.source import ReleaseSettings, source_of
from tuner.workload import Workload

_HEAD = ("actor", "head")
_ROUNDS = 2  # a later assignment can undo an earlier one through an interpolation; once is enough to fix it


class NotExpressible(ValueError):  # noqa: N818 - the name says what the proposal is
    """No overrides of this release turn the settings into the proposed workload."""


def override_writer(before: Workload, settings: Settings, *, version: str) -> Callable[[Workload], Written]:
    """A function that writes a proposal as overrides of the settings, see :meth:`Writer.written`."""
    return ProposalWriter(before, settings, version=version).written


class ProposalWriter:
    """Writes proposals as overrides that are added to one configuration.

    Proposals whose overrides begin alike share what the release reads from these.

    Args:
        before: what the release reads from the settings.
        settings: the configuration that the overrides will be added to.
        version: the release.
    """

    def __init__(self, before: Workload, settings: Settings, *, version: str) -> None:
        self._before = before
        self._settings = settings
        self._version = version
        self._original = _Draft(source_of(settings, version), before, version, {})
        self._known: dict[Workload, Written | NotExpressible] = {}

    def written(self, after: Workload) -> Written:
        """The fewest overrides that make the release read ``after``, and what it reads from them.

        A key that already follows another one is not written. ``+`` marks keys that the settings lack.
        What a release does of its own accord need not agree, see :func:`with_release_facts`.

        Raises:
            NotExpressible: the release has no key for the change, or reads something else from it.
        """
        known = self._known.get(after)
        if known is None:
            try:
                known = self._found(after)
            except NotExpressible as error:
                known = error
            self._known[after] = known
        if isinstance(known, NotExpressible):
            raise NotExpressible(*known.args)
        return known

    def _found(self, after: Workload) -> Written:
        draft = self._original
        free = _following_packing(self._before, after)
        for _round in range(_ROUNDS):
            source = draft.source
            for part in parts(source, after):
                draft = draft.agreeing(part, after, free if part.path == _HEAD else ())
            if draft.workload == with_release_facts(source, self._before, after, draft.workload):
                return self._finished(draft.with_dynamic_log_probs(), changes=self._before != after)
        raise NotExpressible(
            _("verl {version} cannot be set to {differences}").format(
                version=self._version, differences=_differences(draft, after)
            )
        )

    def _finished(self, draft: "_Draft", *, changes: bool) -> Written:
        """The overrides of a draft, in the order they were found, and what the release reads from them.

        Raises:
            NotExpressible: something ``changes``, and there is nothing to set for it.
        """
        if changes and not draft.written:
            raise NotExpressible(_("verl {version} has no key for this change").format(version=self._version))
        overrides = tuple(self._override(key, value) for key, value in draft.written.items())
        return Written(overrides=overrides, workload=draft.workload)

    def _override(self, key: str, value: Any) -> str:
        """An override as the user's program takes it.

        Raises:
            NotExpressible: that program has no such key.
        """
        sign = "" if key in self._settings else ADDS
        text = self._settings.as_reader_takes_it(override(key, value, sign))
        if text is None:
            raise NotExpressible(_("the program has no key that stands for {key}").format(key=key))
        return text


class _Draft:
    """Settings with some overrides, and what the release reads from them.

    A draft keeps those that were made from it: nothing is read twice from the same overrides.
    """

    def __init__(
        self, source: ReleaseSettings, before: Workload, version: str, written: Mapping[str, Any]
    ) -> None:
        self.source = source
        self.written = written  # new values by key, in the order they were found
        self._before = before
        self._version = version
        self._next: dict[str, _Draft] = {}

    @cached_property
    def workload(self) -> Workload:
        """What the release reads.

        Raises:
            NotExpressible: it refuses the settings.
        """
        if not self.written:
            return self._before
        critic, rollout = self._before.critic, self._before.rollout
        try:
            return read(
                self.source.settings,
                version=self._version,
                model=self._before.model,
                critic_model=None if critic is None else critic.model,
                cluster=self._before.cluster,
                rollout_engine_version=None if rollout is None else rollout.engine_version,
                lengths=self._before.batch.lengths,
                zero_advantage_ratio=self._before.batch.zero_advantage_ratio,
                service_models=_service_models(self._before),
            )
        except TunerError as error:
            raise NotExpressible(str(error)) from error

    def agreeing(self, part: WorkloadPart, after: Workload, free: Collection[str]) -> "_Draft":
        """With what makes a part read as in ``after``, all but the fields that are ``free``.

        Raises:
            NotExpressible: the release has no key for a field, or none that takes the part away.
        """
        wanted, draft = part.of(after), self
        if wanted == part.of(self.workload):
            return self
        if wanted is None:  # as where a job that generates would get the weight sync of one that does not
            raise NotExpressible(_("verl {version} has no key for this change").format(version=self._version))
        for field in part.fields:
            if field.path not in free and part.differs(field, after, draft.workload):
                for meaning, value in field.assignments(part.context, wanted):
                    draft = draft._stating(meaning, value, part)
        return draft

    def _stating(self, meaning: str, value: Any, part: WorkloadPart) -> "_Draft":
        source = self.source if part.context is None else part.context.source  # whose section it is
        key = source.key(meaning)
        if key is None:
            raise NotExpressible(
                _("verl {version} has no key for {meaning}").format(version=self._version, meaning=meaning)
            )
        return self._setting(key, value)

    def with_dynamic_log_probs(self) -> "_Draft":
        """Since 0.8 the actor's flag holds for both, and verl asserts that the other one is equal."""
        switch, follower = self.source.key("actor.dynamic"), self.source.key("log_prob.dynamic")
        if switch is None or follower is None or not self.source.engine_workers:
            return self
        return self._setting(follower, self.written[switch]) if switch in self.written else self

    def _setting(self, key: str, value: Any) -> "_Draft":
        if self.source.settings.get(key) == value:
            return self
        text = override(key, value)
        if text not in self._next:
            source = replace(self.source, settings=self.source.settings.with_value(key, value))
            written = {**self.written, key: value}
            self._next[text] = _Draft(source, self._before, self._version, written)
        return self._next[text]


def _service_models(workload: Workload) -> dict[str, ModelShape]:
    """The models of services by what the configuration calls them."""
    return {service.name: service.model for service in workload.services if service.model is not None}


def with_release_facts(
    source: ReleaseSettings, before: Workload, after: Workload, read: Workload
) -> Workload:
    """The workload that was asked for, with the release's own facts taken from what was ``read``.

    A proposal decides settings. What follows from them (which fused heads are right, the dtype of
    moments) is for the release to say, and what a proposal leaves as it was it has not asked for.
    """
    for part in parts(source, after):
        free = _following_packing(before, after) if part.path == _HEAD else ()
        after = part.with_release_facts(after, read, free)
    return after


def _following_packing(before: Workload, after: Workload) -> tuple[str, ...]:
    """Fields of the actor's head that may follow packing: it changes and the proposal leaves them alone."""
    if before.actor.engine.packed == after.actor.engine.packed:
        return ()
    old, new = before.actor.head, after.actor.head
    return tuple(name for name in heads.ENTROPY if getattr(old, name) == getattr(new, name))


def _differences(draft: _Draft, after: Workload) -> str:
    fields = (
        f"{'.'.join(part.path)}.{field.path}"
        for part in parts(draft.source, after)
        for field in part.fields
        if part.differs(field, after, draft.workload)
    )
    return ", ".join(fields) or _("a field that has no key")
