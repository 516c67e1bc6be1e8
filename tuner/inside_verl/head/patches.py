"""Functions of verl that the head replaces."""

from tuner.inside_verl.patching import Patch

PATCHES: tuple[Patch, ...] = ()
