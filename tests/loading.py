"""A configuration on the defaults of a bundled release of verl, in one call."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.corpus import launches
from tuner.trainers import verl
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl.defaults import CONFIGS


def load(path: Path | None, overrides: Sequence[str], *, version: str) -> Loaded:
    """Read a file, overrides, or both, as the command line does."""
    return verl.parse(path, overrides).on(version)


def launches_with_config() -> Iterator[tuple[str, list[str]]]:
    """The release of each real launch, and its overrides behind the trainer configuration it names."""
    for launch in launches():
        version = verl.choose_release(launch["tags"][0].removeprefix("v")).version
        config = launch["config_name"]
        named = config and config.removesuffix(".yaml") in CONFIGS
        yield version, [*([f"--config-name={config}"] if named else []), *launch["overrides"]]
