"""Which version of a rollout engine a release of verl runs with.

What the engine does with memory differs more between its own versions than between releases of
verl. A release is taken with the version that is named, else with the installed one, else with the
newest that its requirements allow.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tuner.errors import InputError
from tuner.language import N_, _
from tuner.serving import vllm
from tuner.serving.names import NAMES, PACKAGES
from tuner.trainers.protocol import RolloutEngineChoice
from tuner.trainers.verl.trainer_code.requirements import Versions
from tuner.versions import at_least, installed_version, is_version, numbers
from tuner.workload import RolloutEngine

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

OLDEST_SERVED = "0.7.0"  # vLLM: older ones run in a copy of their worker that verl up to 0.4 brings along


class _Allowed(Struct, frozen=True, kw_only=True):
    """What the requirements of a release, and of later ones up to the next entry, say."""

    since: str
    newest: str
    oldest: str = ""  # empty: only the newest
    word: Literal["newest", "oldest", "one"] = "newest"


# verl: METADATA of its wheels.
_REQUIRED = {
    RolloutEngine.VLLM: (
        _Allowed(since="0.9.1", newest="0.24.0", oldest="0.24.0", word="one"),
        _Allowed(since="0.9.0", newest="0.18.0", oldest="0.18.0", word="oldest"),
        _Allowed(since="0.7.0", newest="0.12.0", oldest="0.8.5"),
        _Allowed(since="0.6.1", newest="0.11.0", oldest="0.8.5"),
        _Allowed(since="0.6.0", newest="0.9.1", oldest="0.7.3"),
        _Allowed(since="0.5.0", newest="0.8.5", oldest="0.7.3"),
        _Allowed(since="0.4.0", newest="0.8.5", oldest="0.5.4"),
        _Allowed(since="0", newest="0.8.2", oldest="0.3.1"),
    ),
    RolloutEngine.SGLANG: (
        _Allowed(since="0.9.1", newest="0.5.12", oldest="0.5.12", word="one"),
        _Allowed(since="0.8.0", newest="0.5.8", oldest="0.5.8", word="one"),
        _Allowed(since="0.7.0", newest="0.5.6", oldest="0.5.6", word="one"),
        _Allowed(since="0.6.1", newest="0.5.5", oldest="0.5.5", word="one"),
        _Allowed(since="0.6.0", newest="0.5.2", oldest="0.5.2", word="one"),
        _Allowed(since="0.4.0", newest="0.4.6.post5", oldest="0.4.6.post5", word="one"),
        _Allowed(since="0", newest="0.4.4.post3", oldest="0.4.4.post3", word="one"),
    ),
    RolloutEngine.TENSORRT_LLM: (_Allowed(since="0", newest="1.2.0rc6", oldest="1.2.0rc6", word="oldest"),),
}


class EnginePin(Struct, frozen=True, kw_only=True):
    """An engine's one version in the repository of a launch, or the newest, and the file that says so."""

    engine: RolloutEngine
    version: str
    file: str  # by its name, with that of its folder
    exact: bool = True  # no older one is allowed
    torch: str = ""  # that the file pins, where it is what bounds the engine
    oldest: str = ""  # that goes with this torch; empty where nothing says

    def excludes(self, version: str) -> bool:
        """Whether a version is older than any that goes with the torch."""
        return bool(self.oldest) and not at_least(version, self.oldest)


_ALLOWED_BY = {
    "newest": N_("the newest that verl {release} allows"),
    "oldest": N_("the oldest that verl {release} allows"),
    "one": N_("the one that verl {release} allows"),
}


def choose_version(
    rollout_engine: RolloutEngine,
    release: str,
    *,
    requested: str | None = None,
    look: bool = False,
    code: "TrainerCode | None" = None,
    pins: Sequence[EnginePin] = (),
    architecture: str = "",
) -> RolloutEngineChoice | None:
    """The version to rest on; None with transformers, which generates in the trainer.

    Args:
        rollout_engine: which one.
        release: verl's, as the settings are read.
        requested: the version that was asked for.
        look: whether an installed one counts.
        code: the copy of verl that would run, whose own files may allow others than the release.
        pins: of the launch and its repository, which come before what anything allows.
        architecture: the type of the model: a range alone means no engine that cannot know it.

    Raises:
        InputError: ``requested`` is no version number, or the release refuses it when it starts.
    """
    if rollout_engine is RolloutEngine.TRANSFORMERS:
        return None
    name = NAMES[rollout_engine]
    if requested is not None:
        return _requested(rollout_engine, release, requested.strip())
    installed = installed_version(PACKAGES[rollout_engine]) if look else None
    if installed is not None and _refusal(rollout_engine, release, installed) is None:
        return RolloutEngineChoice(name=name, version=installed, reason=_("installed"))
    pin = next((one for one in pins if one.engine is rollout_engine), None)
    if pin is not None and pin.exact and _refusal(rollout_engine, release, pin.version) is None:
        version, reason, others = pin.version, _("{file} pins it").format(file=pin.file), False
    else:
        version, reason, others = _capped(pin, release, _newest(rollout_engine, release, code))
        version, reason = _knowing(rollout_engine, release, code, architecture, version, reason)
    if installed is not None:
        reason += _("; the installed {installed} does not run with it").format(installed=installed)
    may_chunk = others and rollout_engine is RolloutEngine.VLLM and at_least(version, vllm.CHUNKS_AS_ASKED)
    return RolloutEngineChoice(
        name=name,
        version=version,
        reason=reason,
        may_chunk=may_chunk,
        others=_older(rollout_engine, release, version) if others else (),
        passed_over=_passed_over(rollout_engine, release, version, code, pin),
    )


@cache
def _older(rollout_engine: RolloutEngine, release: str, version: str) -> tuple[str, ...]:
    """The versions before one with which a release runs: those that the bundled releases know of."""
    oldest = _allowed(rollout_engine, release).oldest
    known = {one for allowed in _REQUIRED[rollout_engine] for one in (allowed.oldest, allowed.newest)}
    older = (
        one
        for one in known
        if one
        and at_least(one, oldest)
        and not at_least(one, version)
        and _refusal(rollout_engine, release, one) is None
    )
    return tuple(sorted(older, key=numbers))


def _passed_over(
    rollout_engine: RolloutEngine,
    release: str,
    version: str,
    code: "TrainerCode | None",
    pin: EnginePin | None,
) -> str:
    """What the files of a launch or its copy ask for and the release refuses, with what it needs."""
    required = None if code is None else code.requirement(PACKAGES[rollout_engine])
    asked = next((one for one in (pin, required) if one is not None), None)
    refusal = None if asked is None else _refusal(rollout_engine, release, asked.version)
    if asked is None or refusal is None:
        return ""
    exact = asked.exact if isinstance(asked, EnginePin) else asked.pinned
    text = _("{file} asks for {name} {asked}")
    if not exact:
        text = _("{file} asks for {name} {asked} at most")
    text += _(
        ", with which verl {release} does not start ({refusal}); {version} is taken and has to be installed"
    )
    return text.format(
        file=asked.file,
        name=NAMES[rollout_engine],
        asked=asked.version,
        release=release,
        refusal=refusal,
        version=version,
    )


def _capped(pin: EnginePin | None, release: str, newest: tuple[str, str, bool]) -> tuple[str, str, bool]:
    """The newest version, or the one that a repository allows where that is older and runs with a release."""
    if pin is None or pin.exact or (at_least(pin.version, newest[0]) and not pin.excludes(newest[0])):
        return newest
    if _refusal(pin.engine, release, pin.version) is not None:
        return newest
    text = _("the newest that {file} allows")
    if pin.torch:
        text = _("the newest that goes with torch {torch}, which {file} pins")
    version = pin.version
    allowed = _allowed(pin.engine, release)
    if pin.excludes(newest[0]) and not _allows(allowed, version):
        if not _allows(allowed, pin.oldest):
            return newest
        version = allowed.newest  # of those with this torch
    return version, text.format(file=pin.file, torch=pin.torch), newest[2]


def _newest(rollout_engine: RolloutEngine, release: str, code: "TrainerCode | None") -> tuple[str, str, bool]:
    """The newest that a copy's files allow, else the release: it, why, and whether others are allowed too."""
    required = None if code is None else code.requirement(PACKAGES[rollout_engine])
    if required is not None and _refusal(rollout_engine, release, required.version) is None:
        return (
            required.version,
            _("the newest that {file} allows").format(file=required.file),
            not required.pinned,
        )
    allowed = _allowed(rollout_engine, release)
    reason = _(_ALLOWED_BY[allowed.word]).format(release=release)
    return allowed.newest, reason, allowed.word == "newest"


def _knowing(
    rollout_engine: RolloutEngine,
    release: str,
    code: "TrainerCode | None",
    architecture: str,
    version: str,
    reason: str,
) -> tuple[str, str]:
    """The first version that knows the model, and why, where the one that nobody pins does not."""
    from tuner.serving.known_models import first_release, lacks_model  # of versions that are assumed

    package = PACKAGES[rollout_engine]
    first = first_release(package, architecture)
    if first is None or not lacks_model(package, version, architecture):
        return version, reason
    taken = None if code is None else code.newest_taken(package)
    if _refusal(rollout_engine, release, first) is not None or taken is not None:
        return version, reason  # the code runs with no such version
    text = _("the first with layers for a model of type {architecture}; {version} would be {reason}")
    return first, text.format(architecture=architecture, version=version, reason=reason)


def newest_allowed(rollout_engine: RolloutEngine, release: str) -> str:
    """The version that a release is read with where nobody names one; empty for transformers."""
    return "" if rollout_engine is RolloutEngine.TRANSFORMERS else _allowed(rollout_engine, release).newest


def allowed_versions(rollout_engine: RolloutEngine, release: str) -> Versions:
    """The versions that a release asks for; no newest one where it takes any newer one."""
    allowed = _allowed(rollout_engine, release)
    return Versions(
        oldest=allowed.oldest or allowed.newest, newest="" if allowed.word == "oldest" else allowed.newest
    )


def releases_with(rollout_engine: RolloutEngine, version: str, releases: Sequence[str]) -> tuple[str, ...]:
    """The releases whose requirements allow a version, else the newest that asks for an older one.

    Args:
        rollout_engine: which one.
        version: of the engine.
        releases: of verl, the oldest first.
    """
    older = [
        release
        for release in releases
        if at_least(version, _allowed(rollout_engine, release).oldest)
        and _refusal(rollout_engine, release, version) is None
    ]
    allowing = [release for release in older if _allows(_allowed(rollout_engine, release), version)]
    return tuple(allowing or older[-1:])


def _allows(allowed: _Allowed, version: str) -> bool:
    """Whether a version that is not too old is none too new; that it is a repackaged one does not count."""
    return allowed.word == "oldest" or at_least(allowed.newest, version)


def _allowed(rollout_engine: RolloutEngine, release: str) -> _Allowed:
    return next(allowed for allowed in _REQUIRED[rollout_engine] if at_least(release, allowed.since))


def _requested(rollout_engine: RolloutEngine, release: str, version: str) -> RolloutEngineChoice:
    name, allowed = NAMES[rollout_engine], _allowed(rollout_engine, release)
    if not is_version(version):
        raise InputError(
            _("{version!r} is not a version of {name}").format(version=version, name=name),
            hint=_("such as --engine-version {newest}").format(newest=allowed.newest),
        )
    refusal = _refusal(rollout_engine, release, version)
    if refusal is not None:
        raise InputError(
            _("verl {release} does not run with {name} {version}: {refusal}").format(
                release=release, name=name, version=version, refusal=refusal
            ),
            hint=_("give --engine-version {newest}, or the --verl-version that is installed with it").format(
                newest=allowed.newest
            ),
        )
    reason = "--engine-version"
    below = allowed.word != "oldest" and not at_least(allowed.newest, version)
    if below or not at_least(version, allowed.oldest):
        asks = (
            allowed.oldest
            if allowed.word == "one"
            else _("{oldest} to {newest}").format(oldest=allowed.oldest, newest=allowed.newest)
        )
        asks = _("{oldest} or newer").format(oldest=allowed.oldest) if allowed.word == "oldest" else asks
        reason += _("; verl {release} asks for {asks}").format(release=release, asks=asks)
    return RolloutEngineChoice(name=name, version=version, reason=reason)


def _refusal(rollout_engine: RolloutEngine, release: str, version: str) -> str | None:
    """Why a release stops when it finds this version; None where it runs.

    Source: verl ``third_party/vllm/__init__.py`` of each release.
    """
    if rollout_engine is not RolloutEngine.VLLM:
        return None
    if at_least(release, "0.9.0"):
        return None if at_least(version, "0.18.0") else _("it needs 0.18.0 or newer")
    if at_least(version, OLDEST_SERVED):
        return None
    if at_least(release, "0.5.0"):
        return _("it needs {oldest_served} or newer").format(oldest_served=OLDEST_SERVED)
    if version == "0.5.4" or version.startswith("0.6.3"):
        return None
    if not at_least(release, "0.4.0") and version in ("0.3.1", "0.4.2"):
        return None
    return _("it needs 0.5.4, 0.6.3, or {oldest_served} or newer").format(oldest_served=OLDEST_SERVED)
