"""Every function of verl that is replaced."""

from tuner.inside_verl.head import patches as head
from tuner.inside_verl.record import patches as record
from tuner.inside_verl.skip import patches as skip

# Those of one attribute wrap one another in this order: the record sees what the skip left.
PATCHES = (*head.PATCHES, *skip.PATCHES, *record.PATCHES)
