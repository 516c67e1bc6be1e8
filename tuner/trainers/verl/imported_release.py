"""The releases of verl that have the program of a launch, or what a project's own program imports of verl.

A program outside of verl, and its modules, were written for a release: later ones have renamed and taken away
what they import, and earlier ones do not have it yet. A program of verl's own is no less of its releases.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.module_names import releases_importing
from tuner.trainers.verl.releases import BUNDLED

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode


def bounded_by_program(guess: ReleaseChoice, program: str) -> ReleaseChoice:
    """A guess among the releases that have the program: the launch ends at once in every other one.

    Where none of the guess has it, those that do are taken: what bounds the guess is said of other packages.

    Args:
        guess: a release that nothing names.
        program: the module that the launch starts.
    """
    having = releases_importing(program)
    if having is None or (guess.plausible and having.issuperset(guess.plausible)):
        return guess
    left = [release for release in guess.plausible if release in having]
    left = left or [release for release in BUNDLED if release in having]
    return _among(guess, left, _("the nearest that has {program}").format(program=program))


def having_program(program: str, among: Sequence[str]) -> tuple[str, ...]:
    """The releases of some that have a program; all of them where it is none of verl's."""
    having = releases_importing(program)
    return tuple(release for release in among if having is None or release in having)


def bounded_by_imports(guess: ReleaseChoice, code: "ProjectCode") -> ReleaseChoice:
    """A guess with those of its releases alone that have what a program imports.

    What contradicts the guess, or what is surely imported, counts for nothing: it may be left over.

    Args:
        guess: a release that nothing names.
        code: of the program and the modules of its project.
    """
    left, bounding = list(guess.plausible), ""
    for file, one in code.of_trainer():
        having = releases_importing(one.module, one.name)
        rest = left if having is None else [release for release in left if release in having]
        if rest and len(rest) < len(left):
            left, bounding = rest, shown_path(str(file))
    if not bounding:
        return guess
    reason = _("the nearest that has what {file} imports of verl").format(file=bounding)
    return _among(guess, left, reason)


def _among(guess: ReleaseChoice, left: Sequence[str], reason: str) -> ReleaseChoice:
    """The guess among fewer releases, and for this reason another one where it is none of them."""
    guess = replace(guess, plausible=tuple(left), older=guess.older and left[0] == BUNDLED[0])
    if guess.version in left:
        return guess
    nearest = min(left, key=lambda release: abs(BUNDLED.index(release) - BUNDLED.index(guess.version)))
    return replace(guess, version=nearest, reason=reason)
