"""``.. worker-updates:: FILE``: updates of verl's own worker, measured beside what the models say of them."""

import json
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from recorded_updates import DATA
from tables import table
from tuner.accuracy import MeasuredCase, compare, pass_interval, workload_of
from tuner.gpus import find_gpu
from tuner.hardware import Gpu
from tuner.units import GIB


class WorkerUpdates(SphinxDirective):
    """The table of a file in ``validation/data``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row for each update."""
        path = DATA / self.arguments[0]
        self.env.note_dependency(str(path))
        document = json.loads(path.read_text(encoding="utf-8"))
        gpu = find_gpu(document["gpu"])
        header = ["Update", "Peak, predicted", "measured", "Seconds, predicted", "measured"]
        rows = [_row(update, gpu) for update in document["updates"]]
        return table(self, header, rows, prose=header[:1], widths=[32, 17, 17, 17, 17])


def _row(update: dict[str, Any], gpu: Gpu) -> list[str]:
    settings = {key: value for key, value in update.items() if key != "update"}
    case = MeasuredCase.model_validate(settings | {"allocated_before_bytes": 0})  # of which nothing is said
    workload = workload_of(case)
    peak, seconds = compare(case, workload).predicted_peak, pass_interval(workload, gpu, training=True)
    return [
        update["update"],
        f"{peak / GIB:.2f} GiB",
        f"{case.peak_allocated_bytes / GIB:.2f} GiB",
        f"{seconds.seconds:.2f} s ({seconds.low_s:.2f}–{seconds.high_s:.2f})",
        f"{update['seconds']:.2f} s",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("worker-updates", WorkerUpdates)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
