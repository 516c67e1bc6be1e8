"""Every function of verl that is replaced, and how each is put in place, once in a process."""

from tuner.inside_verl.head import patches as head
from tuner.inside_verl.patching import RELEASES, Patch, State, apply_when_imported
from tuner.inside_verl.record import patches as record
from tuner.inside_verl.settings import SETTINGS
from tuner.inside_verl.skip import patches as skip
from tuner.inside_verl.verl_process import running_release, say
from tuner.language import _

# Those of one attribute wrap one another in this order: the record sees what the skip left.
PATCHES = (*head.PATCHES, *skip.PATCHES, *record.PATCHES)


_state: State | None = None


def _names(patches: list[str]) -> str:
    return ", ".join(patches) or _("nothing")


def _late(patch: Patch, there: bool) -> None:
    if not there:
        say(
            _("{name} is not in place: {module} has no {attribute}").format(
                name=patch.name, module=patch.module, attribute=patch.attribute
            )
        )


def _summary(release: str, state: State) -> str:
    parts = [_("verl {release}").format(release=release)]
    parts += [f"{setting.name}={value}" for setting in SETTINGS if (value := setting.read()) is not None]
    parts.append(_("in place: {names}").format(names=_names(state.in_place)))
    if state.waiting:
        parts.append(_("as soon as verl imports them: {names}").format(names=_names(state.waiting)))
    if state.missing:
        parts.append(_("not in this verl: {names}").format(names=_names(state.missing)))
    return "; ".join(parts)


def install() -> State | None:
    """Replaces what the settings ask for and says so in one line; None where nothing could be.

    A second call changes nothing and says nothing.

    Raises:
        TunerError: an environment variable has a value that is not allowed.
    """
    global _state
    if _state is not None:
        return _state
    for setting in SETTINGS:
        setting.read()
    release = running_release()
    if release is None:
        say(_("there is no verl in this environment, so nothing is changed"))
        return None
    if release not in RELEASES:
        say(
            _("verl {release} is not known, so nothing is changed; known are {known}").format(
                release=release, known=", ".join(RELEASES)
            )
        )
        return None
    wanted = tuple(patch for patch in PATCHES if release in patch.releases and patch.wanted())
    _state = apply_when_imported(wanted, _late)
    say(_summary(release, _state))
    return _state
