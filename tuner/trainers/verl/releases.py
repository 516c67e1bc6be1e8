"""The verl releases whose defaults travel with this package."""

from tuner.errors import InputError
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.trainers.protocol import ReleaseChoice
from tuner.versions import at_least, installed_version, is_version, numbers

BUNDLED: tuple[str, ...] = (
    "0.3.0.post1",
    "0.4.0",
    "0.4.1",
    "0.5.0",
    "0.6.0",
    "0.6.1",
    "0.7.0",
    "0.7.1",
    "0.8.0",
    "0.9.0",
    "0.9.1",
)

#: Our module that workers can import as an external library; what it replaces is listed by release.
OUR_LIBRARY = "tuner.inside_verl"


def modules_of(external_library: object) -> tuple[object, ...]:
    """What ``model.external_lib`` has the workers import: one module, or a list of them."""
    return tuple(external_library) if isinstance(external_library, (list, tuple)) else (external_library,)


def brings_our_head(external_library: object, version: str) -> bool:
    """Whether the workers of a release import our head, see :mod:`tuner.inside_verl`."""
    return OUR_LIBRARY in modules_of(external_library) and reaches(version, "0.5.0")


# 0.7 carries both generations of workers; trainer.use_legacy_worker_impl=disable picks the new one,
# which reads the keys of the releases after it. It counts as a release of its own.
ENGINE_PREVIEW = "0.7.1.1"
PREVIEWS = {"0.7.0": "0.7.0.1", "0.7.1": ENGINE_PREVIEW}


def reaches(version: str, bound: str) -> bool:
    """Whether a release is at a bound or after it.

    Args:
        version: a release, or one of :data:`PREVIEWS`.
        bound: a release; :data:`ENGINE_PREVIEW` bounds what has the new generation of workers.
    """
    if bound == ENGINE_PREVIEW:
        return version in PREVIEWS.values() or at_least(version, "0.8.0")
    return at_least(version, bound)


def choose_release(
    requested: str | None, own: ReleaseChoice | None = None, *, ran: str | None = None
) -> ReleaseChoice:
    """The release to rest on: the requested one, else the installed one, else the newest bundled one.

    A release that is not bundled is served by the nearest older one that is.

    Args:
        requested: what the user asks for.
        own: what the configuration itself tells: before what is installed where that is certain, else behind.
        ran: what the record of a run says that it ran with; before all but what is requested.

    Raises:
        InputError: ``requested`` is not a version number.
    """
    if requested is not None:
        return _nearest(requested, _("asked for {requested}").format(requested=without_secrets(requested)))
    if ran is not None and is_version(ran):
        return _nearest(ran, _("the run was recorded with verl {ran}").format(ran=ran))
    installed = installed_version("verl")
    if own is not None and (own.certain or installed is None):
        return own
    if installed is not None:
        return _nearest(installed, _("verl {installed} is installed").format(installed=installed))
    return ReleaseChoice(version=BUNDLED[-1], reason=_("newest bundled release; no verl is installed here"))


def installed_release() -> str | None:
    """The bundled release that stands for the installed one; None where none is installed."""
    installed = installed_version("verl")
    return None if installed is None else _nearest(installed, "").version


def _nearest(version: str, reason: str) -> ReleaseChoice:
    family = [bundled for bundled in BUNDLED if bundled.startswith(version.strip().lstrip("v") + ".")]
    if family:  # "0.9" names no release: its newest bundled one is meant
        return ReleaseChoice(version=family[-1], reason=reason)
    if not is_version(version.strip()):
        hint = _("bundled releases: {bundled}").format(bundled=", ".join(BUNDLED))
        raise InputError(_("{version!r} is not a verl release").format(version=version), hint=hint)
    older = [bundled for bundled in BUNDLED if at_least(version, bundled)]
    taken = older[-1] if older else BUNDLED[0]
    if numbers(taken) == numbers(version):
        return ReleaseChoice(version=taken, reason=reason)
    kind = _("nearest older bundled release") if older else _("oldest bundled release")
    return ReleaseChoice(
        version=taken,
        reason=_("{reason}; {taken} is the {kind}").format(reason=reason, taken=taken, kind=kind),
        unbundled=version.strip().lstrip("v"),
    )
