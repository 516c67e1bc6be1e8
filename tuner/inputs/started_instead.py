"""What a script starts in place of a program with overrides, for the message that refuses the script."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tuner.errors import Location, cut
from tuner.inputs.secrets import without_secrets
from tuner.inputs.shell.launches import Launch
from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.values import Unknown
from tuner.language import _

_SCRIPT = ".sh"
_MOST = 3  # in one message
_MOST_STARTED = 2  # of these: the last ones
_CHARACTERS = 80  # of a name
#: Programs that lay out files, fetch, or look: what they are given starts nothing.
_PREPARE = frozenset(
    {
        *("mkdir", "rm", "cp", "mv", "ln", "cat", "ls", "tar", "touch", "chmod", "sed", "grep", "awk", "tee"),
        *("pip", "pip3", "conda", "apt", "apt-get", "git", "wget", "curl", "huggingface-cli", "module"),
        *("sleep", "date", "ray", "wandb", "nvidia-smi", "set", "ulimit"),
    }
)


class StartedInstead(Struct, frozen=True, kw_only=True):
    """A program without overrides, or a script that is not to be had."""

    name: str
    location: Location
    absent: bool  # a script that may start the trainer, and is not here
    unnamed: bool = False  # it gets overrides, and nothing says that it is a program of Python

    def __str__(self) -> str:
        name = cut(without_secrets(self.name), _CHARACTERS)
        if self.absent:
            text = _("{name} ({place}) is not here, neither in the folder of the script nor above it")
        elif self.unnamed:
            text = _("{name} ({place}) is not known to start a program of Python")
        else:
            text = _("{name} ({place}) gets no key=value")
        return text.format(name=name, place=self.location)


def started_instead(
    commands: Sequence[StartedProgram],
    programs: Sequence[Launch],
    not_read: Sequence[Unknown],
    is_here: Callable[[str], bool],
) -> tuple[StartedInstead, ...]:
    """The scripts that are missing, and the last programs that may train; first those that tell the most.

    Args:
        commands: that the script starts.
        programs: those of Python among them.
        not_read: files that it has run in a shell, and that are not to be had.
        is_here: whether a script that it names is to be had.
    """
    named = [(str(command.words[0].text), command.location) for command in commands]
    unread = [(unknown.text, unknown.location) for unknown in not_read if _may_start(unknown.text)]
    unread += [(name, place) for name, place in named if _may_start(name) and not is_here(name)]
    absent = dict(reversed(unread))  # by name, where the script first has it
    python = [(program.program, program.location) for program in programs]
    others = [] if python else [(name, place) for name, place in named if _may_train(name)]
    missing = [
        StartedInstead(name=name, location=place, absent=True) for name, place in reversed(absent.items())
    ]
    overridden = {place for (_name, place), it in zip(named, commands, strict=True) if _gets_overrides(it)}
    started = [
        StartedInstead(name=name, location=place, absent=False, unnamed=not python and place in overridden)
        for name, place in (*python, *others)
    ]
    last = list(dict.fromkeys(started))[-_MOST_STARTED:]
    return (*missing[: _MOST - len(last)], *last)


def _gets_overrides(command: StartedProgram) -> bool:
    """Whether a word behind a program sets a key that has a section."""
    words = (str(word.text).partition("=") for word in command.words[1:])
    return any(equals and "." in key and not key.startswith("-") for key, equals, _value in words)


def _may_start(name: str) -> bool:
    """Whether a file may be a script that starts the trainer, and not one that readies the environment."""
    return name.endswith(_SCRIPT) and "conda" not in name


def _may_train(name: str) -> bool:
    """Whether a command is none of those that only prepare."""
    return name.rpartition("/")[2] not in _PREPARE and not name.endswith(_SCRIPT)
