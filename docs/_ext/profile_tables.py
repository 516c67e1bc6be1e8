"""``.. gpu-table::`` and ``.. model-table::``: what the bundled profiles say."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.dtypes import DType
from tuner.gpus import find_gpu, gpu_names
from tuner.models import find_model, model_names
from tuner.units import GIB, GIGA, KIB, TERA


class GpuTable(SphinxDirective):
    """All bundled accelerators."""

    def run(self) -> list[nodes.Node]:
        """One row per accelerator."""
        header = [
            "Name",
            "GiB",
            "Usable",
            "GB/s",
            "bf16, TFLOP/s",
            "fp8, TFLOP/s",
            "Link, GB/s",
            "Per node",
            "Source",
        ]
        rows = [self._row(name) for name in gpu_names()]
        found = table(self, header, rows, widths=[17, 7, 8, 8, 11, 10, 9, 7, 30])
        for node in found:
            for row in node.findall(nodes.row):
                row[-1]["classes"].append("original")  # a source is cited as it calls itself
        return found

    @staticmethod
    def _row(name: str) -> list[str]:
        gpu = find_gpu(name)
        fp8 = gpu.dense_fp8_flop_per_s
        return [
            f"``{name}``",
            f"{gpu.memory_bytes / GIB:.1f}",
            "–" if gpu.capacity_bytes == gpu.memory_bytes else f"{gpu.capacity_bytes / GIB:.1f}",
            f"{gpu.memory_bytes_per_s / GIGA:,.0f}",
            f"{gpu.dense_bf16_flop_per_s / TERA:,.0f}" + ("" if gpu.bfloat16 else " (fp16)"),
            "–" if fp8 is None else f"{fp8 / TERA:,.0f}",
            f"{gpu.link_bytes_per_s / GIGA:,.0f}",
            "–" if gpu.per_node is None else str(gpu.per_node),
            _linked(gpu.source),
        ]


class ModelTable(SphinxDirective):
    """All bundled models."""

    def run(self) -> list[nodes.Node]:
        """One row per model."""
        header = ["Name", "Parameters", "Active", "Layers", "Hidden", "Vocabulary", "KV cache per token"]
        return table(self, header, [self._row(name) for name in model_names()])

    @staticmethod
    def _row(name: str) -> list[str]:
        model = find_model(name)
        kv_bytes = model.cached_layers * model.kv_values_per_token * DType.BFLOAT16.bytes
        active = model.active_parameters
        return [
            f"``{name}``",
            f"{model.parameters / GIGA:.2f} B",
            "–" if active == model.parameters else f"{active / GIGA:.2f} B",
            str(model.layers),
            f"{model.hidden:,}",
            f"{model.vocab:,}",
            f"{kv_bytes / KIB:.0f} KiB",
        ]


def _linked(source: str) -> str:
    """A source that ends in an address, as a link."""
    text, _, address = source.rpartition(" ")
    return f"`{text} <{address}>`__" if address.startswith("https://") else source


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("gpu-table", GpuTable)
    app.add_directive("model-table", ModelTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
