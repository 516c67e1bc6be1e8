"""How far a number can be trusted. Every number shown carries one of these."""

from enum import Enum


class Evidence(Enum):
    """Ordered from the surest to the least sure."""

    EXACT = "exact"  # arithmetic on sizes that the code allocates
    MEASURED = "measured"  # read off a GPU; the profile names hardware, versions and date
    MODELLED = "modelled"  # derived from the code, checked against measurements
    HEURISTIC = "heuristic"  # a stated assumption that was not derived
