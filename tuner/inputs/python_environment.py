"""The environment whose Python a script runs, by the name that the script itself gives it."""

import re

from tuner.errors import Location
from tuner.inputs.environment import EnvironmentVariable

_ACTIVATED = re.compile(
    r"^[^#\n]*?(?:\b(?:conda|mamba|micromamba)\s+activate\s+"
    r"|(?:\bsource|(?<!\S)\.)\s+(?=\S*/bin/activate)"
    r"|\bVIRTUAL_ENV="
    r"|(?<![\w.}/-])(?=[\"']?[/$]\S*/bin/python[\d.]*(?![\w.])))"
    r"[\"']?(?P<path>[^\s\"';&|]+)",
    re.MULTILINE,
)
_PROGRAM = re.compile(r"/bin/(?:activate|python[\d.]*)$")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ASSIGNED = r"^[ \t]*(?:export[ \t]+)?{name}=[\"']?([\w./-]+)[\"']?[ \t]*$"
#: Names that environments of any project bear, and folders of the machine's own Python.
_NAMELESS = re.compile(r"\.?v?env|base|usr|local|conda|(?:mini|ana)(?:conda|forge)\d?|python[\d.]*|py\d*")


def python_environment(text: str, source: str) -> tuple[EnvironmentVariable, ...]:
    """The variable that an activated environment sets, with its name; nothing where a script names none.

    Args:
        text: of the script.
        source: names it.
    """
    for match in _ACTIVATED.finditer(text):
        path = _VARIABLE.sub(lambda one: _value(text, one[1]), _PROGRAM.sub("", match["path"]))
        name = path.rstrip("/").rpartition("/")[2]
        if "$" not in name and re.fullmatch(r"[\w.-]+", name) and not _NAMELESS.fullmatch(name):
            line = text.count("\n", 0, match.start("path")) + 1
            return (
                EnvironmentVariable(
                    name="VIRTUAL_ENV", value=name, location=Location(source=source, line=line)
                ),
            )
    return ()


def _value(text: str, name: str) -> str:
    """What a script assigns to a variable, where that is one plain word."""
    assigned = re.search(_ASSIGNED.format(name=name), text, re.MULTILINE)
    return f"${name}" if assigned is None else assigned[1]
