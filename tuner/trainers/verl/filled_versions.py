"""Versions that an install script or an image has in a variable of its own: ``vllm==${VLLM_VERSION}``.

Only what the same file gives it, once or as its default, fills it: nobody runs the file.
"""

import re

_ASSIGNED = re.compile(
    r"^[ \t]*(?:(?:export|readonly|local|ARG|ENV)[ \t]+)*(?P<name>[A-Za-z_]\w*)=(?P<quote>[\"']?)"
    r"(?:\$\{(?P=name):?[-=])?v?(?P<version>\d+(?:\.\d+)+(?:[.-]?post\d+)?)\}?(?P=quote)[ \t\r]*(?:#.*)?$",
    re.MULTILINE,
)
_ANY = r"^[ \t]*(?:(?:export|readonly|local|ARG|ENV)[ \t]+)*{name}="
#: Behind the comparison; a default stands in the word itself.
_USED = re.compile(
    r"(?<===)v?\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?[-=]v?(?P<default>[\d.]+(?:post\d+)?))?\}|(?P<bare>[A-Za-z_]\w*))"
)


def filled(text: str) -> str:
    """A text with the versions that its own variables hold in the place of these."""
    known = {match["name"]: match["version"] for match in _ASSIGNED.finditer(text)}
    sure = {
        name: version
        for name, version in known.items()
        if len(re.findall(_ANY.format(name=name), text, re.MULTILINE)) == 1
    }
    return _USED.sub(lambda use: sure.get(use["braced"] or use["bare"]) or use["default"] or use[0], text)
