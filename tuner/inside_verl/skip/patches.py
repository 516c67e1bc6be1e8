"""Functions of verl that the skip replaces."""

from tuner.inside_verl.patching import Patch

PATCHES: tuple[Patch, ...] = ()
