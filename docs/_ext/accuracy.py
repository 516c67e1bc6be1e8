"""``.. accuracy:: validation/data/file.json``: predictions beside measured peaks, computed while building."""

import statistics
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tests.memory.measured import Comparison, compare, load
from tuner.units import GIB

# What a recorded pass is unless its row says otherwise.
_USUAL = {
    "model_dtype": "fp32",
    "strategy": "fsdp2",
    "gradient_checkpointing": True,
    "use_torch_compile": True,
    "reshard_after_forward": True,
    "temperature": 1.0,
    "micro_batches": 1,
    "lora_rank": 0,
}
_SWITCHES = (
    "calculate_entropy",
    "entropy_chunking",
    "entropy_checkpointing",
    "activation_offload",
    "deferred_gradient_sync",
    "forward_only_engine",
    "forward_prefetch",
    "optimizer_offload",
    "param_offload",
)


def settings(case: dict[str, Any]) -> list[str]:
    """What is special about one recorded pass, as ``key=value``."""
    special = [f"{key}={case[key]}" for key, usual in _USUAL.items() if case[key] != usual]
    special += [key for key in _SWITCHES if case[key]]
    return special + ([f"fused_kernels={case['fused_kernels']}"] if case["fused_kernels"] else [])


class Accuracy(SphinxDirective):
    """A summary of all recorded passes, and one row for each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both tables."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        rows = [compare(case) for case in load(path)]
        errors = [abs(row.error) for row in rows]
        added = [abs(row.added_error) for row in rows]
        summary = [
            ["peak of a pass", *_spread(errors)],
            ["what the pass adds", *_spread(added)],
        ]
        header = ["Compared", "Passes", "Median error", "Largest error"]
        details = ["Model", "Pass", "Tokens", "Settings", "Predicted, GiB", "Measured, GiB", "Error"]
        widths = [14, 10, 8, 32, 12, 12, 12]
        return [
            *table(self, header, summary, prose=["Compared"]),
            *table(self, details, [_row(row) for row in rows], widths=widths),
        ]


def _spread(errors: list[float]) -> list[str]:
    return [str(len(errors)), f"{statistics.median(errors):.1%}", f"{max(errors):.1%}"]


def _row(row: Comparison) -> list[str]:
    return [
        str(row.case["model"]).rsplit("/", 1)[-1],
        f"``{row.case['pass']}``",
        f"{row.case['tokens']:,}",
        " ".join(f"``{setting}``" for setting in settings(row.case)) or "–",
        f"{(row.predicted_peak + row.foreign) / GIB:.2f}",
        f"{row.measured_peak / GIB:.2f}",
        f"{row.error:+.1%}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("accuracy", Accuracy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
