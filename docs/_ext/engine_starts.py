"""``.. recorded-starts::``: what vLLM's start took of a GPU, and what of that it counted within its share."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.units import MIB

SECOND_RUNNER = "vllm.v1.worker.gpu.model_runner"


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


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a start took beside its cache, in bytes."""

    pool: int  # of the graphs' tensors
    driver: int  # kept for the graphs
    awake: int  # beyond the share, the context and the graphs that are not in the share
    asleep: int | None  # beyond context, kernels and graphs; None where it did not sleep


def step_differences(start: dict[str, Any]) -> Taken:
    """The differences between the steps of a recorded start."""
    steps = {step["step"]: step for step in start["steps"]}
    used = {name: step["non_torch_bytes"] + step["reserved_bytes"] for name, step in steps.items()}
    before, after = steps["initialize_from_config"], steps["capture_model"]
    pool, driver = (after[key] - before[key] for key in ("reserved_bytes", "non_torch_bytes"))
    within = start["requested_bytes"] + pool + driver - start["graph_estimate_bytes"]
    kept = used["context"] + start["non_torch_bytes"] + pool + driver
    return Taken(
        pool=pool,
        driver=driver,
        awake=used["generated"] - used["context"] - within,
        asleep=used["asleep"] - kept if "asleep" in used else None,
    )


def _row(start: dict[str, Any]) -> list[str]:
    bytes_taken = step_differences(start)
    name = f"``{start['start']}``" + ("" if start["compiled"] == "anew" else " ²")
    runner = " ¹" if start["runner"] == SECOND_RUNNER else ""
    counted = (start["activation_bytes"], start["non_torch_bytes"], start["graph_estimate_bytes"])
    sizes = (*counted, bytes_taken.pool, bytes_taken.driver, bytes_taken.awake)
    return [
        f"{name}{runner}",
        *map(_mib, sizes),
        "" if bytes_taken.asleep is None else _mib(bytes_taken.asleep),
    ]


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("recorded-starts", Starts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
