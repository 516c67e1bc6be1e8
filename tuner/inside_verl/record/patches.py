"""Functions of verl that the record replaces."""

from tuner.inside_verl.patching import Patch

PATCHES: tuple[Patch, ...] = ()
