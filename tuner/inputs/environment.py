"""Variables of the environment that a launch gives its program."""

from msgspec import Struct

from tuner.errors import Location


class EnvironmentVariable(Struct, frozen=True, kw_only=True):
    """A variable that the program gets, with its value and where that is set."""

    name: str
    value: str
    location: Location
    setting: str = ""  # the key that has it; empty where a script does
    of_ray: bool = False  # Ray's workers get it on every node: it is handed to them, or the script starts Ray
    known: bool = True  # else only a run would tell its value, or that may be a secret; it is empty here
