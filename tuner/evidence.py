"""How far a number can be trusted. Every number shown carries one of these."""

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.language import N_


class Evidence(Enum):
    """Ordered from the surest to the least sure."""

    EXACT = N_("exact")  # arithmetic on sizes that the code allocates
    MEASURED = N_("measured")  # read off a GPU; the profile names hardware, versions and date
    MODELLED = N_("modelled")  # derived from the code, checked against measurements
    HEURISTIC = N_("heuristic")  # a stated assumption that was not derived


class ChangedCode(Struct, frozen=True, kw_only=True):
    """Where a copy of the trainer does otherwise than the release in what a key rests on."""

    place: str  # the file, with the function in it
    release: str  # that it is held to
