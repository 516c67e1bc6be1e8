"""Records peaks and seconds of passes over images by the engine of ``tuner validate``; run it by hand.

    PYTHONPATH=.:tests python -m measure.seeing --output FILE [--engines NAME ...] [--minutes M] [--dry-run]

The models are the first layers of real ones, with whole vision towers, random weights and random images. Each
engine runs in a process of its own; the file is written again after each. ``--dry-run`` runs tiny models, for
a processor, and writes what is predicted in the place of what would be measured.
"""

import argparse
import json
import os
import sys
import time
import traceback
from dataclasses import replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # no CUDA before the fork
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from measure.forked import records_of
from measure.readings import hardware
from measure.seeing.plan import EnginePlan, engines
from measure.seeing.tiny import tiny_case, tiny_config

from tuner.accuracy import MeasuredCase, workload_of
from tuner.models import find_config
from tuner.models.shape import cut_config
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import ModelSettings, PassFailed
from tuner.validate.training.worker.measure import measure_passes

_ENGINE_S = 60.0
_REPETITIONS = 2
_REPEAT_S = 1.0
WHAT = (
    "Peak GPU memory and seconds of the FSDP engine that tuner validate runs (what verl 0.9.1's allocates, "
    "in its order), random weights and images, packed sequences, the images' tokens at the beginning of "
    "each; measured with torch.cuda.max_memory_allocated after reset."
)
NOTES = (
    "layers: the decoder's first layers; the vision tower is whole.",
    "attention: torch aten flash attention, varlen over sequences and over packed images or their windows, "
    "of Gemma's SigLIP over a batch of images; logprobs: a Triton cross entropy as flash-attn's.",
    "every engine ran in a fresh process, after one small pass of every kind; AdamW's states exist before "
    "every recorded pass. The allocator's cache was emptied before each pass.",
    "passes that recompute and passes that keep everything take turns in one engine.",
    "repeated_seconds: further calls on the warm GPU.",
)


def main() -> None:
    """Runs every chosen engine that there is time for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--engines", nargs="*", default=[""], help="parts of names; all without")
    parser.add_argument("--minutes", type=float, default=3.0, help="after which no engine is begun")
    parser.add_argument("--dry-run", action="store_true", help="tiny models, for a processor")
    arguments = parser.parse_args()
    _import_before_the_fork()
    latest = time.monotonic() + 60 * arguments.minutes
    document: dict[str, Any] = {
        "what": WHAT,
        "hardware": hardware(),
        "software": {name: metadata.version(name) for name in ("torch", "transformers")},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "cases": [],
    }
    for plan in engines():
        if not any(part in plan.name for part in arguments.engines):
            continue
        left = latest - time.monotonic()
        if left < 5:
            print(f"no time for {plan.name}", flush=True)
            continue
        begin = time.monotonic()
        timeout = min(left + 10, _ENGINE_S) if torch.cuda.is_available() else 600.0
        cases = records_of(_run, plan, arguments.dry_run, timeout_s=timeout)
        document["cases"] += cases
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")
        taken = f"{time.monotonic() - begin:.0f} s"
        print(f"{plan.name}: {len(cases)} of {len(plan.cases)} passes in {taken}", flush=True)


def _import_before_the_fork() -> None:
    import transformers.models.gemma3.modeling_gemma3
    import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl
    import transformers.models.qwen3_vl.modeling_qwen3_vl
    import transformers.models.siglip.modeling_siglip  # noqa: F401


def _run(plan: EnginePlan, dry_run: bool, results: Any) -> None:
    """One engine with all of its passes, each sent as soon as all are done."""
    try:
        for record in _records(plan, dry_run):
            results.send(record)
    except Exception:
        results.send(traceback.format_exc())
    results.close()
    sys.stdout.flush()
    os._exit(0)


def _records(plan: EnginePlan, dry_run: bool) -> list[dict[str, Any]]:
    planned = [planned_of(tiny_case(case) if dry_run else case) for case in plan.cases]
    one = plan.cases[0]
    config = cut_config(find_config(one.model).values, one.layers or 1)
    if dry_run:
        config = tiny_config(config)
    figures = measure_passes(
        ModelSettings(config=config),
        [item.settings for item in planned],
        _REPETITIONS,
        repeat_s=_REPEAT_S,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )
    records = []
    for item, figure in zip(planned, figures, strict=False):
        if isinstance(figure, PassFailed):
            print(f"{plan.name}: {figure.message}", flush=True)
            continue
        if figure.peak_allocated_bytes is None:
            figure = replace(figure, allocated_before_bytes=0, peak_allocated_bytes=item.predicted.peak_bytes)
        record = item.measured_case(replace(figure, seconds=())).model_dump(
            by_alias=True, exclude_defaults=True
        )
        records.append(record | {"layers": one.layers, "repeated_seconds": figure.seconds})
    return records


def planned_of(case: MeasuredCase) -> PlannedPass:
    """The case as a pass that the engine runs, with the micro-batch that it says."""
    training = case.pass_ == "update"
    planned = next(
        item for item in planned_passes(workload_of(case), processes=1) if item.training == training
    )
    assert (planned.case.tokens, planned.case.sequence_length) == (case.tokens, case.sequence_length)
    return planned


if __name__ == "__main__":
    main()
