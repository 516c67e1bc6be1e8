"""``.. recorded-overhead::`` and others: what lies outside a job's tensors, as a GPU showed it.

Each takes a file of ``validation/data`` and makes a table of it; where the model predicts a figure, it is
computed while the page is built.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.accuracy import read_measured, workload_of
from tuner.dtypes import DType
from tuner.memory.residents import Residents
from tuner.memory.rollout.kv_cache import kv_bytes_per_token
from tuner.models import find_model
from tuner.units import MIB
from tuner.workload import FractionOf, Rollout, RolloutEngine


class _Recorded(SphinxDirective):
    """Shared by the directives: the file that the argument names."""

    required_arguments = 1

    def path(self) -> Path:
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        return path

    def probes(self, name: str) -> Iterator[dict[str, Any]]:
        """The probes whose names begin so."""
        recorded = json.loads(self.path().read_text(encoding="utf-8"))
        return (probe for probe in recorded["probes"] if probe["probe"].startswith(name))


class Overhead(_Recorded):
    """What each step of a process adds to what PyTorch's allocator does not hold."""

    def run(self) -> list[nodes.Node]:
        """One row per step."""
        (probe,) = self.probes("process")
        rows = [[step, f"{added:,.0f}", f"{held:,.0f}"] for step, added, held in _steps(probe)]
        return table(self, ["Step", "Adds, MiB", "Held, MiB"], rows, prose=["Step"], widths=[60, 20, 20])


class Communicators(_Recorded):
    """What each operation of NCCL adds, by the number of GPUs."""

    def run(self) -> list[nodes.Node]:
        """One row per operation that some number of GPUs has made."""
        probes = sorted(self.probes("communicators"), key=lambda probe: int(probe["gpus"]))
        added_by_count = [{_plain(step): added for step, added, _ in _steps(probe)} for probe in probes]
        names = dict.fromkeys(name for steps in reversed(added_by_count) for name in steps)
        rows = [
            [name, *(f"{steps[name]:,.0f}" if name in steps else "–" for steps in added_by_count)]
            for name in names
        ]
        counts = (int(probe["gpus"]) for probe in probes)
        header = ["Operation", *(f"{count} GPU{'s' * (count > 1)}, adds MiB" for count in counts)]
        return table(self, header, rows, prose=["Operation"], widths=[40, 20, 20, 20])


class Processes(_Recorded):
    """What the processes of verl's engine held beside their allocator, and the prediction."""

    def run(self) -> list[nodes.Node]:
        """One row for each way to share the GPUs."""
        kinds: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = defaultdict(list)
        for case in read_measured(self.path()).cases:
            terms = Residents.of(workload_of(case)).process
            sums = (sum(sizes) for sizes in zip(*((t.low, t.bytes, t.high) for t in terms), strict=True))
            low, predicted, high = sums
            held = case.non_torch_bytes
            if held is not None:
                kinds[case.world_size, case.shard, case.ulysses].append((held, low, predicted, high))
        rows = [_process_row(kind, passes) for kind, passes in sorted(kinds.items())]
        header = [
            "GPUs",
            "Shard",
            "Ulysses",
            "Passes",
            "Held, MiB",
            "Predicted, MiB",
            "Largest error",
            "Inside",
        ]
        return table(self, header, rows)


def _process_row(kind: tuple[int, int, int], passes: list[tuple[int, int, int, int]]) -> list[str]:
    held = [size for size, *_ in passes]
    predicted = passes[0][2]
    worst = max((predicted / size - 1 for size in held), key=abs)
    return [
        *(str(number) for number in kind),
        str(len(passes)),
        f"{median(held) / MIB:,.0f} ({min(held) / MIB:,.0f}–{max(held) / MIB:,.0f})",
        f"{predicted / MIB:,.0f}",
        f"{worst:+.1%}",
        f"{sum(low <= size <= high for size, low, _, high in passes)}",
    ]


class Caches(_Recorded):
    """Bytes per token of paged caches, as allocated and as the model has them."""

    def run(self) -> list[nodes.Node]:
        """One row per cache."""
        (probe,) = self.probes("kv-cache")
        rows = []
        for step in probe["steps"]:
            name, _, rest = step["cache"].partition(" ")
            predicted = kv_bytes_per_token(find_model(name.lower()), _rollout(rest))
            measured = step["tensor_bytes"] / step["tokens"]
            rows.append([step["cache"], f"{measured:,.0f}", f"{predicted:,}", _allocated(step)])
        header = ["Cache", "Tensors, bytes per token", "Model, bytes per token", "Blocks on top"]
        return table(self, header, rows, prose=["Cache"], widths=[34, 22, 22, 22])


def _allocated(step: dict[str, Any]) -> str:
    """What the allocator takes beyond the tensors' own bytes, as a share."""
    return f"{step['reserved_bytes'] / step['tensor_bytes'] - 1:.1%}"


def _rollout(described: str) -> Rollout:
    """An engine with a cache as it is described: its dtype, its tensor-parallel size."""
    return Rollout(
        engine=RolloutEngine.VLLM,
        memory_fraction=0.5,
        fraction_of=FractionOf.TOTAL,
        tensor_parallel=int(described.rpartition(" ")[2]) if "parallel" in described else 1,
        kv_dtype=DType.FLOAT8 if described == "fp8" else DType.BFLOAT16,
        max_sequences=1,
        max_batched_tokens=1,
        max_model_tokens=None,
        cuda_graphs=False,
        gpus=8,
    )


class Graphs(_Recorded):
    """CUDA graphs of a decode step: their pool, and what the driver keeps."""

    def run(self) -> list[nodes.Node]:
        """One row per model."""
        rows = []
        for probe in self.probes("cuda-graphs"):
            steps = probe["steps"]
            before = next(step for step in steps if step["step"] == "warm-up")
            graphs = sum(step["step"].startswith("graph of") for step in steps)
            pool, driver = (
                (steps[-1][key] - before[key]) / MIB for key in ("reserved_bytes", "non_torch_bytes")
            )
            name = probe["probe"].removeprefix("cuda-graphs-")
            rows.append(
                [f"``{name}``", str(graphs), f"{pool:.0f}", f"{driver:.0f}", f"{driver / graphs:.1f}"]
            )
        header = ["Model", "Graphs", "Pool, MiB", "Driver, MiB", "Driver, MiB per graph"]
        return table(self, header, rows)


def _steps(probe: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Name, what the step adds and what is held after it, in MiB."""
    before = 0
    for step in probe["steps"]:
        held = step["non_torch_bytes"]
        yield step["step"], (held - before) / MIB, held / MIB
        before = held


def _plain(step: str) -> str:
    """A step's name without the size, which goes with the number of GPUs."""
    return re.sub(r" \(\d+ MiB\)", " of a large tensor", step)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("recorded-overhead", Overhead)
    app.add_directive("recorded-communicators", Communicators)
    app.add_directive("recorded-processes", Processes)
    app.add_directive("recorded-caches", Caches)
    app.add_directive("recorded-graphs", Graphs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
