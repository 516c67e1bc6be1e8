"""Which release of a trainer a configuration rests on, among those whose defaults travel with the program."""

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.versions import at_least, installed_folder, installed_version, is_version, numbers


class ReleaseChoice(Struct, frozen=True, kw_only=True):
    """A release of the trainer whose defaults travel with the program, and why it was taken."""

    version: str
    reason: str
    unbundled: str | None = None  # the release that was meant, where that one does not travel with it
    certain: bool = False  # whatever is installed
    package: str = ""  # the folder of the installed package that would run, where that is not bundled
    requested: bool = False  # by the user, whatever the input tells
    plausible: tuple[str, ...] = ()  # of which it is a guess, oldest first; empty where something names it
    older: bool = False  # the guess may be one before all that travel with it as well
    doubted: bool = False  # something names it, and others alone have all keys of the launch
    between: str = ""  # what names something between releases, of which it is a guess: a commit, a version

    @property
    def other_releases(self) -> tuple[str, ...]:
        """The releases that it may be as well."""
        return tuple(version for version in self.plausible if version != self.version)


class BundledReleases(Struct, frozen=True, kw_only=True):
    """The releases of a trainer whose defaults travel with the program."""

    trainer: str  # its name, which is that of its Python package as well
    versions: tuple[str, ...]  # oldest first

    def choose(
        self, requested: str | None, own: ReleaseChoice | None = None, *, ran: str | None = None
    ) -> ReleaseChoice:
        """The release to rest on: the requested one, else the installed one, else the newest bundled one.

        A release that is not bundled is served by the nearest older one that is.

        Args:
            requested: what the user asks for.
            own: what the configuration tells: before what is installed where it is certain, else behind.
            ran: what the record of a run says that it ran with; before all but what is requested.

        Raises:
            InputError: ``requested`` is not a version number.
        """
        if requested is not None:
            reason = _("asked for {requested}").format(requested=without_secrets(requested))
            return replace(self._with_package(self.nearest(requested, reason)), requested=True)
        if ran is not None and is_version(ran):
            return self.nearest(
                ran, _("the run was recorded with {trainer} {ran}").format(trainer=self.trainer, ran=ran)
            )
        installed = installed_version(self.trainer)
        if own is not None and (own.certain or installed is None):
            return own
        if installed is not None:
            reason = _("{trainer} {installed} is installed").format(trainer=self.trainer, installed=installed)
            return self._with_package(self.nearest(installed, reason))
        return self.newest_of(self.versions)

    def newest_of(self, plausible: tuple[str, ...]) -> ReleaseChoice:
        """The newest of the releases that it may be, where nothing names it."""
        reason = _("newest bundled release; no {trainer} is installed here").format(trainer=self.trainer)
        return ReleaseChoice(version=plausible[-1], reason=reason, plausible=plausible)

    def _with_package(self, choice: ReleaseChoice) -> ReleaseChoice:
        """A release that is not bundled, with the folder where it is installed, if it is."""
        if choice.unbundled is None or choice.unbundled != installed_version(self.trainer):
            return choice
        return replace(choice, package=installed_folder(self.trainer))

    def installed(self) -> str | None:
        """The bundled release that stands for the installed one; None where none is installed."""
        installed = installed_version(self.trainer)
        return None if installed is None else self.nearest(installed, "").version

    def nearest(self, version: str, reason: str) -> ReleaseChoice:
        """The bundled release that stands for a version.

        Raises:
            InputError: it is no version number.
        """
        family = [
            bundled for bundled in self.versions if bundled.startswith(version.strip().lstrip("v") + ".")
        ]
        if family:  # "0.9" names no release: its newest bundled one is meant
            return ReleaseChoice(version=family[-1], reason=reason)
        if not is_version(version.strip()):
            hint = _("bundled releases: {bundled}").format(bundled=", ".join(self.versions))
            raise InputError(
                _("{version!r} is not a {trainer} release").format(version=version, trainer=self.trainer),
                hint=hint,
            )
        older = [bundled for bundled in self.versions if at_least(version, bundled)]
        taken = older[-1] if older else self.versions[0]
        if numbers(taken) == numbers(version):
            return ReleaseChoice(version=taken, reason=reason)
        kind = _("nearest older bundled release") if older else _("oldest bundled release")
        return ReleaseChoice(
            version=taken,
            reason=_("{reason}; {taken} is the {kind}").format(reason=reason, taken=taken, kind=kind),
            unbundled=version.strip().lstrip("v"),
        )
