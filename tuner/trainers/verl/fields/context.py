"""What deciding a field of a job of verl takes, beside what any trainer's field takes."""

from tuner.trainers.fields import Context
from tuner.trainers.verl.source import ReleaseSettings


class ReleaseContext(Context, frozen=True, kw_only=True):
    """Settings as a release of verl reads them."""

    source: ReleaseSettings
