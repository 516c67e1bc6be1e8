"""A package that a script puts under a name before it starts Python: ``ln -s old/verl path/verl``."""

from msgspec import Struct

from tuner.errors import Location


class PlacedPackage(Struct, frozen=True, kw_only=True):
    """A folder that Python imports under another name, or from another place, once a script has run."""

    name: str  # under which it is imported; empty of a folder whose packages all are
    source: str  # the folder as it lies before; counted from where the script is started, or from a variable
    folder: str  # in which it is put; "." where the script is started
    ahead: tuple[str, ...]  # folders in which Python looks before that one, as far as they are known
    listed: bool  # it is surely one in which Python looks
    location: Location  # of the command
    certain: bool = True  # no branch that nobody knows leads to it
