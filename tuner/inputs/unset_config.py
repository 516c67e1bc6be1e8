"""A launch that names its configuration by a variable which nobody sets: ``--config-name $CONFIG``."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tuner.inputs.overrides import CONFIG_NAME, Argument
from tuner.inputs.program.named_config import named_config
from tuner.inputs.user_input import OpenArgument, UserInput
from tuner.language import _
from tuner.shown_paths import shown_path


def with_own_config(given: UserInput, name: Argument) -> UserInput:
    """The launch with the configuration that its program's code names, where the tree has that one.

    Whoever starts it by hand may say another one, so that the name stays open.

    Args:
        given: a launch with the option.
        name: what the option says, with a part that nobody knows.
    """
    arguments = tuple(_without_name(given.arguments))
    own = named_config(given.program, arguments, folder=given.folder, folders=given.folders)
    if own is None or own.file is None or not own.settled:
        return given
    text = _("{name}; {file} is taken, which the program's code names").format(
        name=name.text, file=shown_path(str(own.file))
    )
    variable = name.text.strip('"').lstrip("$").strip("{}")
    opened = OpenArgument(
        key=CONFIG_NAME[0],
        text=text,
        name=variable if variable.isidentifier() else "",
        location=name.location,
    )
    return replace(given, arguments=arguments, unsettled=(opened, *given.unsettled))


def _without_name(arguments: Sequence[Argument]) -> Iterator[Argument]:
    """The arguments without ``--config-name`` and what follows it."""
    following = iter(arguments)
    for argument in following:
        option, equals, _value = argument.text.partition("=")
        if option not in CONFIG_NAME:
            yield argument
        elif not equals:
            next(following, None)
