"""The verl releases whose defaults travel with this package."""

from tuner.trainers.bundled_releases import BundledReleases
from tuner.versions import at_least

BUNDLED: tuple[str, ...] = (
    "0.3.0.post1",
    "0.4.0",
    "0.4.1",
    "0.5.0",
    "0.6.0",
    "0.6.1",
    "0.7.0",
    "0.7.1",
    "0.8.0",
    "0.9.0",
    "0.9.1",
)

#: Our module that workers can import as an external library; what it replaces is listed by release.
OUR_LIBRARY = "tuner.inside_verl"


def modules_of(external_library: object) -> tuple[object, ...]:
    """What ``model.external_lib`` has the workers import: one module, or a list of them."""
    return tuple(external_library) if isinstance(external_library, (list, tuple)) else (external_library,)


def brings_our_head(external_library: object, version: str) -> bool:
    """Whether the workers of a release import our head, see :mod:`tuner.inside_verl`."""
    return OUR_LIBRARY in modules_of(external_library) and reaches(version, "0.5.0")


# 0.7 carries both generations of workers; trainer.use_legacy_worker_impl=disable picks the new one,
# which reads the keys of the releases after it. It counts as a release of its own.
ENGINE_PREVIEW = "0.7.1.1"
PREVIEWS = {"0.7.0": "0.7.0.1", "0.7.1": ENGINE_PREVIEW}


def reaches(version: str, bound: str) -> bool:
    """Whether a release is at a bound or after it.

    Args:
        version: a release, or one of :data:`PREVIEWS`.
        bound: a release; :data:`ENGINE_PREVIEW` bounds what has the new generation of workers.
    """
    if bound == ENGINE_PREVIEW:
        return version in PREVIEWS.values() or at_least(version, "0.8.0")
    return at_least(version, bound)


RELEASES = BundledReleases(trainer="verl", versions=BUNDLED)
