"""What a layer of Megatron-Core takes of the host, or what autograd keeps of it; run it from the repository.

    pip install --no-deps --target PACKAGES megatron-core==0.16.0 transformer-engine==2.6.0 einops
    PYTHONPATH=.:tests python -m measure.megatron_layers host --packages PACKAGES --output FILE [--runs N]
    PYTHONPATH=.:tests python -m measure.megatron_layers kept --packages PACKAGES --output FILE

``docs/validation/data/megatron-host.json`` has three runs of the first, ``megatron-saved.json`` is of the
second. Neither needs a GPU: Transformer Engine's compiled part is replaced by torch's operators, so that its
Python, whose length is asked for, runs as it does beside one. ``--dry-run`` takes few readings.
"""

import argparse
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import torch
from measure.megatron_layers.layers import (
    Choices,
    Dimensions,
    megatron_layers,
    single_modules,
    start_group,
    transformers_layers,
)
from measure.megatron_layers.on_the_cpu import put_on_the_cpu
from measure.megatron_layers.readings import directions, kept_bytes

_REPEATED = 10  # single modules in a row
_KEPT = Dimensions(layers=1, hidden=128, heads=4, kv_heads=2, intermediate=384, tokens=1024)
NOTES = {
    "host": (
        "Transformer Engine's compiled part is replaced by torch's operators on the processor, so that its "
        "Python runs as it does beside a GPU: a product is one operator and four views of its operands, "
        "attention and rotary embedding one copy for each output.",
        "4 layers of hidden size 32 in bfloat16, 8 tokens in two packed sequences: arithmetic takes no time "
        "that counts.",
        "forward_s: without gradients; kept_forward_s, kept_s: forward, and forward and backward; where a "
        "layer recomputes, kept_s has the recomputation in it.",
        "each number is the median of five; one rank, no collectives, fused rotary embedding, gated "
        "activation and dropout-add compiled by torch.",
    ),
    "kept": (
        "counted by torch.autograd.graph.saved_tensors_hooks, each storage once, on the processor; the "
        "difference of three layers and one, halved, of 1,024 tokens in two packed sequences.",
        "Transformer Engine's compiled part is replaced by torch's operators; its attention returns its "
        "output and a float32 statistic for each head.",
        "one rank, bfloat16, nothing recomputed; fused_activation and fused_rotary as they are told.",
    ),
}


def host_rows(run: int, least_s: float) -> Iterator[dict[str, Any]]:
    """Seconds of single modules, then of layers of both libraries, with and without recomputation."""
    sizes = Dimensions()
    for name, module in single_modules(sizes, _REPEATED).items():
        yield {"run": run, "what": name, **directions(module, _REPEATED, least_s=least_s)}
    for norms, recomputes in product((False, True), repeat=2):
        choices = Choices(query_key_norms=norms, recomputes=recomputes)
        told = {"query_key_norms": norms, "recomputes": recomputes}
        for what, layers in (
            ("transformers layer", transformers_layers(sizes, choices)),
            ("Megatron-Core layer", megatron_layers(sizes, choices)[0]),
        ):
            yield {"run": run, "what": what, **told, **directions(layers, sizes.layers, least_s=least_s)}


def kept_rows() -> Iterator[dict[str, Any]]:
    """Bytes of a token that a layer keeps, by what is fused."""
    for activation, rotary, norms in product((True, False), (True, False), (False, True)):
        if activation and not rotary:
            continue
        choices = Choices(query_key_norms=norms, fused_activation=activation, fused_rotary=rotary)
        kept = []
        for layers in (1, 3):
            run, parameters = megatron_layers(Dimensions(**{**asdict(_KEPT), "layers": layers}), choices)
            kept.append(kept_bytes(run, without=parameters))
        yield {
            "query_key_norms": norms,
            "fused_activation": activation,
            "fused_rotary": rotary,
            "saved_bytes_per_token": round((kept[1] - kept[0]) / 2 / _KEPT.tokens, 3),
        }


def document(what: str, runs: int, least_s: float) -> dict[str, Any]:
    """Everything that the file has."""
    versions = {name: metadata.version(name) for name in ("megatron-core", "transformer-engine", "torch")}
    common = {"software": versions, "notes": NOTES[what], "date": date.today().isoformat()}
    if what == "kept":
        sizes = {**asdict(_KEPT), "head_dim": _KEPT.head_dim}
        dimensions = {
            name: sizes[name] for name in ("hidden", "heads", "kv_heads", "head_dim", "intermediate")
        }
        return {
            "what": "Bytes per token that autograd keeps of one layer of Megatron-Core with Transformer "
            "Engine's modules, parameters left out.",
            **common,
            "dimensions": dimensions,
            "layers": list(kept_rows()),
        }
    versions |= {"transformers": metadata.version("transformers"), "python": platform.python_version()}
    return {
        "what": "Seconds of the host for one decoder layer of Megatron-Core with Transformer Engine's "
        "modules, and for one of transformers.",
        "hardware": f"{os.cpu_count()} cores of {platform.machine()}, no GPU; seconds are the thread's",
        **common,
        "rows": [row for run in range(1, runs + 1) for row in host_rows(run, least_s)],
    }


def main() -> None:
    """Reads what was asked for, and writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=tuple(NOTES), help="seconds of the host, or kept bytes")
    parser.add_argument("--packages", required=True, help="the folder with both packages")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--runs", type=int, default=3, help="of seconds")
    parser.add_argument("--dry-run", action="store_true", help="few readings")
    arguments = parser.parse_args()
    put_on_the_cpu(arguments.packages)
    start_group(port=29750)
    torch.manual_seed(0)
    found = document(arguments.what, arguments.runs, 0.0 if arguments.dry_run else 0.6)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    os._exit(0)  # compiled functions have threads that outlive it


if __name__ == "__main__":
    main()
