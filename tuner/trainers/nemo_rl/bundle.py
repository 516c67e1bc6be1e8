"""Bundles the example configurations of a release of NeMo-RL, which all recipes inherit from.

``python -m tuner.trainers.nemo_rl.bundle CHECKOUT 0.7.0`` reads ``examples/configs/*.yaml`` of a checkout at
the release's tag and writes ``defaults/0.7.0.json``: keys and values, without comments. Nothing of the
checkout is imported or executed.
"""

import json
import sys
from pathlib import Path

from tuner.inputs.yaml_file import read_yaml

_DEFAULTS = Path(__file__).parent / "defaults"


def bundle(checkout: Path, version: str, *, folder: Path = _DEFAULTS) -> Path:
    """Write the exemplars of a checkout.

    Args:
        checkout: the root of a checkout at the release's tag.
        version: the release.
        folder: where to write.

    Raises:
        InputError: an exemplar cannot be read.
    """
    files = sorted((checkout / "examples" / "configs").glob("*.yaml"))
    trees = {file.name: read_yaml(file).tree for file in files}
    written = folder / f"{version}.json"
    written.write_text(json.dumps(trees, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    sys.stdout.write(f"{bundle(Path(sys.argv[1]), sys.argv[2])}\n")
