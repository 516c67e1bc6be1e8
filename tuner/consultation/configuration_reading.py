"""A configuration on its release, read as a job, checked and written, also with overrides of advice."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from tuner.advise import ReleaseRange
from tuner.consultation.circumstances import Circumstances
from tuner.errors import TunerError
from tuner.findings import Finding, Written
from tuner.inputs.user_input import OpenArgument
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Configuration, Loaded, RolloutEngineChoice
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.consultation.guessed_release import GuessedRelease
    from tuner.consultation.open_findings import FindingsOfWay


class Alternative(Protocol):
    """A job that a script would start instead, as far as its findings go."""

    def findings(self, overrides: tuple[str, ...]) -> "FindingsOfWay":
        """What checks say of it with further overrides."""


class ConfigurationReading:
    """The user's configuration, or the same with overrides that advice would add to it."""

    def __init__(
        self,
        circumstances: Circumstances,
        release: ReleaseChoice,
        configuration: Configuration,
        loaded: Loaded,
        alternatives: Sequence[Alternative],
        added: tuple[str, ...] = (),
        guess: "GuessedRelease | None" = None,
    ) -> None:
        self._alternatives = alternatives
        self._added = added
        self._given_guess = guess
        self._circumstances = circumstances
        self._release = release
        self._configuration = configuration
        self._loaded = loaded
        self._further: dict[tuple[str, ...], ConfigurationReading] = {}

    @property
    def loaded(self) -> Loaded:
        """The configuration on its release."""
        return self._loaded

    @cached_property
    def workload(self) -> Workload:
        """What the release makes of it."""
        return self._circumstances.workload(self._loaded, self._circumstances.rollout_engine(self._loaded))

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """What the trainer's checks say about it; milder where that rests on what nobody knows."""
        findings = self.release_findings
        if self._guess is not None:
            findings = self._guess.with_conditions(findings)
        engine = self._circumstances.rollout_engine(self._loaded) if findings else None
        named = "" if engine is None or not engine.others else f"{engine.name} {engine.version}"
        if engine is None or not named or not any(named in finding.message for finding in findings):
            return findings
        from tuner.consultation.open_engine import with_open_engine  # where a check speaks of the version

        return with_open_engine(findings, engine, self._with_engine)

    def _with_engine(self, engine: RolloutEngineChoice) -> Sequence[Finding] | None:
        """What checks say with another version of the rollout engine; None where it cannot be read."""
        try:
            return self._loaded.check(self._circumstances.workload(self._loaded, engine))
        except TunerError:
            return None

    @cached_property
    def _guess(self) -> "GuessedRelease | None":
        """The releases that it may be as well, the same whatever is added; None where something names it."""
        if (
            self._given_guess is not None
            or self._added
            or not (self._release.other_releases or self._release.older)
        ):
            return self._given_guess
        from tuner.consultation.guessed_release import GuessedRelease  # where nothing names a release

        trainer = self._loaded.trainer
        return GuessedRelease(self._release, trainer.name, trainer.bundled.versions, self._read_on)

    @property
    def running(self) -> ReleaseChoice | None:
        """The guess among releases that refuse nothing of a launch, where the guessed one does; else None."""
        if self._guess is None or not any(finding.refuses for finding in self.release_findings):
            return None
        return self._guess.running

    def _read_on(self, version: str, overrides: tuple[str, ...]) -> "ConfigurationReading | None":
        """A reading with overrides on a release that it may be; None where that does not read it."""
        if version == self._loaded.version and not overrides:
            return self
        try:
            configuration = self._configuration.adding(overrides) if overrides else self._configuration
            other = ConfigurationReading(
                self._circumstances,
                self._release,
                configuration,
                configuration.on(version),
                self._alternatives,
                overrides,
            )
            other.release_findings  # noqa: B018 - a value that cannot be read is an error here
        except TunerError:
            return None
        return other

    def averages_elsewhere(self) -> bool:
        """Whether another release that it may be of weighs tokens by how sequences are cut."""
        return self._guess is not None and self._guess.averages_elsewhere

    def serving_releases(
        self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]
    ) -> str:
        """The releases in which overrides serve, where these are not all that it may be; else nothing."""
        return "" if self._guess is None else self._guess.serving(overrides, serves)

    @cached_property
    def release_findings(self) -> Sequence[Finding]:
        """The findings on this release, whether or not something names it."""
        given = self._circumstances.given
        findings: Sequence[Finding] = self._loaded.check(self.workload)
        if self._circumstances.open_gpus is not None:
            findings = self._on_any_number(findings, self._circumstances.open_gpus)
        elif self._circumstances.own_gpus is not None and any(one.refuses for one in findings):
            findings = self._on_own_number(findings, self._circumstances.own_gpus)
        if not (given.unsettled or self._alternatives):
            return findings
        from tuner.consultation.open_findings import with_open  # most inputs leave nothing open

        ways = [alternative.findings(self._added) for alternative in self._alternatives]
        of_file = () if given.settings_file is None else given.settings_file.settings
        return with_open(findings, self._loaded.settings, given.unsettled, ways, of_file)

    def _on_any_number(self, findings: Sequence[Finding], opened: OpenArgument) -> Sequence[Finding]:
        """The findings, milder where they do not hold of one GPU on a node: how many there are is open."""
        from tuner.consultation.open_findings import with_open_gpus

        alone = self._checked_on(1)
        if alone is None:  # what is asked of several cannot be read for one
            return findings
        return with_open_gpus(findings, alone, opened, self._circumstances.cluster.gpus_per_node)

    def _on_own_number(self, findings: Sequence[Finding], number: int) -> Sequence[Finding]:
        """The findings, milder where they refuse it on the GPUs of an option and not on the launch's own."""
        from tuner.consultation.open_findings import with_own_gpus

        own = self._checked_on(number)
        gpus = self._circumstances.cluster.gpus_per_node
        return findings if own is None else with_own_gpus(findings, own, number, gpus)

    def _checked_on(self, gpus: int) -> Sequence[Finding] | None:
        """What checks say of it on another number of GPUs; None where it cannot be read for that."""
        cluster = replace(self._circumstances.cluster, gpus_per_node=gpus)
        other = replace(self._circumstances, cluster=cluster, open_gpus=None)
        try:
            return self._loaded.check(other.workload(self._loaded, other.rollout_engine(self._loaded)))
        except TunerError:
            return None

    @cached_property
    def releases(self) -> ReleaseRange | None:
        """What the job may take where its release is not bundled."""
        return self._circumstances.releases(self._configuration, self._release, self.workload)

    def write(self, proposal: Workload) -> Written:
        """The proposal as overrides; ValueError where the release has no keys for it."""
        return self._writer(proposal)

    @cached_property
    def _writer(self) -> Callable[[Workload], Written]:
        return self._loaded.override_writer(self.workload)

    def adding(self, overrides: Sequence[str]) -> "ConfigurationReading":
        """The configuration with further overrides; ValueError where the release refuses to read it."""
        added = tuple(overrides)
        if added not in self._further:
            try:
                configuration = self._configuration.adding(added)
                loaded = configuration.on(self._loaded.version)
                loaded.settings.keep_from(self._loaded.settings)
                reading = ConfigurationReading(
                    self._circumstances,
                    self._release,
                    configuration,
                    loaded,
                    self._alternatives,
                    self._added + added,
                    self._guess,
                )
                reading.workload  # noqa: B018 - a value that cannot be read is an error here
            except TunerError as error:
                raise ValueError(str(error)) from error
            self._further[added] = reading
        return self._further[added]
