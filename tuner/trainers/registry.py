"""The trainers whose configurations can be read, and which of them an input is for.

verl and NeMo-RL are read by this program itself. A Python package adds a trainer by an entry point of the
group ``tuner.trainers`` that names an object which fulfils :class:`~tuner.trainers.protocol.Trainer`.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from tuner.errors import InputError
from tuner.inputs.overrides import Argument
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers import verl
from tuner.trainers.protocol import Trainer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tuner.trainers"
DEFAULT: Trainer = verl
"""Reads what no trainer recognises, and says what is wrong with it."""


@cache
def added() -> tuple[Trainer, ...]:
    """The trainers of installed packages, by the names of their entry points.

    Raises:
        InputError: a package's trainer cannot be imported.
    """
    from importlib.metadata import entry_points  # takes longer than an input of verl may

    return tuple(map(_loaded, sorted(entry_points(group=GROUP), key=lambda point: point.name)))


def _loaded(point: "EntryPoint") -> Trainer:
    try:
        trainer: Trainer = point.load()
    except Exception as error:
        raise InputError(
            _("the trainer {name} cannot be loaded: {error}").format(name=point.name, error=error),
            hint=_("mend or remove the package that brings {value}").format(value=point.value),
        ) from error
    return trainer


@cache
def further() -> tuple[Trainer, ...]:
    """The trainers that this program reads beside verl, loaded where verl is not what is asked for."""
    from tuner.trainers import nemo_rl

    return (nemo_rl,)


def trainers() -> tuple[Trainer, ...]:
    """Every trainer, this program's own first."""
    return (DEFAULT, *further(), *added())


def trainer_named(name: str) -> Trainer:
    """The trainer that is called so in messages.

    Raises:
        InputError: there is none.
    """
    for trainer in _in_turn():
        if trainer.name == name:
            return trainer
    known = ", ".join(trainer.name for trainer in trainers())
    raise InputError(
        _("no trainer is called {name}").format(name=name), hint=_("known are {known}").format(known=known)
    )


def trainer_of(document: Document | None, given: Sequence[Argument], *, program: str = "") -> Trainer:
    """The trainer that an input is for; verl where none recognises it."""
    recognising = (one for one in _in_turn() if one.recognises(document, given, program=program))
    return next(recognising, DEFAULT)


def trainer_of_file(text: str, *, yaml: bool) -> Trainer | None:
    """The trainer that a file of a folder seems to configure; None where it seems to be for none."""
    return next((trainer for trainer in _in_turn() if trainer.may_configure(text, yaml=yaml)), None)


def _in_turn() -> Iterator[Trainer]:
    """Every trainer; those of packages are looked for only where verl is not what is asked for."""
    yield DEFAULT
    yield from further()
    yield from added()
