"""The language that a command line asks for, chosen before anything else is imported.

Help texts are made when the commands are imported, so the option is taken out of the command line beforehand;
it may stand anywhere, before the command as well as behind it.
"""

from collections.abc import Mapping

from tuner.language import choose

OPTION, VARIABLE = "--lang", "TUNER_LANG"


def choose_language(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Choose the language of ``--lang``, else of ``TUNER_LANG``, else English.

    Args:
        arguments: the command line, from which the option is taken out.
        environment: the variables of the process. LANG and LC_ALL are not read: what a log or a script shows
            must not depend on the machine.

    Raises:
        InputError: there is no such language, or none is named.
    """
    choose(None)
    source, name = OPTION, _pop_option(arguments)
    if name is None:
        source, name = VARIABLE, environment.get(VARIABLE) or None
    if name is not None:
        from tuner.catalogues import catalogue

        choose(catalogue(name, source=source))


def _pop_option(arguments: list[str]) -> str | None:
    """The value of the last ``--lang``, taken out with the option; what follows ``--`` is not looked at."""
    name, index = None, 1
    while index < len(arguments) and arguments[index] != "--":
        option, equals, value = arguments[index].partition("=")
        if option != OPTION:
            index += 1
            continue
        taken = 1 if equals else 2
        name = value if equals else "".join(arguments[index + 1 : index + 2])
        del arguments[index : index + taken]
    return name
