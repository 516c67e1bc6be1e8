"""``.. recorded-starts::``: what vLLM's start took of a GPU, and what of that it counted within its share."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.units import MIB

_SECOND_RUNNER = "vllm.v1.worker.gpu.model_runner"


class Starts(SphinxDirective):
    """A table of a file's starts, in MiB."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per start."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        recorded = json.loads(path.read_text(encoding="utf-8"))
        header = ["Start", "Profile run", "Kernels", "Graphs, estimated", "Pool", "Driver", "Awake", "Asleep"]
        return table(self, header, [_row(start) for start in recorded["starts"]], widths=[34, *7 * [11]])


def _row(start: dict[str, Any]) -> list[str]:
    steps = {step["step"]: step for step in start["steps"]}
    before, after = steps["initialize_from_config"], steps["capture_model"]
    pool, driver = (after[key] - before[key] for key in ("reserved_bytes", "non_torch_bytes"))
    context, graphs = _used(steps["context"]), pool + driver
    within = start["requested_bytes"] + graphs - start["graph_estimate_bytes"]
    awake = _used(steps["generated"]) - context - within
    asleep = None
    if "asleep" in steps:
        asleep = _used(steps["asleep"]) - context - start["non_torch_bytes"] - graphs
    name = f"``{start['start']}``" + ("" if start["compiled"] == "anew" else " ²")
    runner = " ¹" if start["runner"] == _SECOND_RUNNER else ""
    sizes = (
        start["activation_bytes"],
        start["non_torch_bytes"],
        start["graph_estimate_bytes"],
        pool,
        driver,
        awake,
    )
    return [f"{name}{runner}", *(_mib(size) for size in sizes), "" if asleep is None else _mib(asleep)]


def _used(step: dict[str, Any]) -> int:
    used: int = step["non_torch_bytes"] + step["reserved_bytes"]
    return used


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("recorded-starts", Starts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
