"""Enumerations whose members are looked up in tables at no cost."""

import enum


class Enum(enum.Enum):
    """An enumeration: each member is one object, so that it may be hashed by what object it is.

    Python hashes its name instead, in a function of Python, and a run asks for some ten thousand such hashes.
    """

    __hash__ = object.__hash__
