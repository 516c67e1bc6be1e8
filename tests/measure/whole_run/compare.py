"""What the tuner predicts for a run, and what the run took: memory and seconds of each phase."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure.whole_run.launch import overrides
from measure.whole_run.plan import Plan

from tuner.inputs.record.read import RunRecord, read_record
from tuner.units import GIB
from tuner.workload import Phase

_SECONDS = {
    Phase.ROLLOUT: "gen",
    Phase.OLD_LOG_PROB: "old_log_prob",
    Phase.REF_LOG_PROB: "ref",
    Phase.VALUES: "values",
    Phase.UPDATE_CRITIC: "update_critic",
    Phase.UPDATE_ACTOR: "update_actor",
    Phase.UPDATE_WEIGHTS: "update_weights",
}
_WAKE_UP = "wake_up"


def advised(words: Sequence[str]) -> dict[str, Any]:
    """The answer of ``tuner advise`` to these words, from its JSON.

    Raises:
        ValueError: it has none.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "advise", *words, "--output-format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr or done.stdout)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def prediction(plan: Plan, prompt_tokens: float) -> dict[str, Any]:
    """What is predicted for a plan before it runs, its mean lengths known.

    Args:
        plan: of the run.
        prompt_tokens: mean tokens of its prompts.
    """
    with TemporaryDirectory() as folder:
        return _answer(plan, prompt_tokens, Path(folder))


def _answer(plan: Plan, prompt_tokens: float, folder: Path) -> dict[str, Any]:
    # Of the files that a run reads, the model's configuration alone is looked at.
    model = folder / plan.config.name
    model.mkdir()
    (model / "config.json").write_text(json.dumps(plan.config.values))
    lengths = [
        f"--mean-prompt-length={round(prompt_tokens)}",
        f"--mean-response-length={round(plan.mean_response_tokens)}",
    ]
    release = ["--gpu", plan.card, "--verl-version", "0.9.1"]
    answer = advised(["/dev/null", *overrides(plan, folder, folder), *release, *lengths])
    block = answer["combination"]
    return {
        "plan": plan.name,
        "tuner": answer["tuner_version"],
        "verdict": answer["verdict"],
        "phases": predicted_phases(answer),
        "step_seconds": answer["step_time"],
        "block": None
        if block is None
        else {
            "overrides": [one["text"] if isinstance(one, dict) else one for one in block["overrides"]],
            "step_seconds": block["step_time"],
            "phases": _memory_of(block["memory"]),
            "change": block["change"],
        },
    }


def predicted_phases(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Bytes and seconds of each phase of an answer, by its name."""
    phases = _memory_of(answer["memory"])
    for time in answer["time"]:
        row = phases.setdefault(time["phase"], {})
        row |= {"seconds": time["seconds"], "interval_s": [time.get("low_s"), time.get("high_s")]}
    return phases


def _memory_of(memory: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        row["phase"]: {
            "allocated_bytes": row["allocated_bytes"],
            "reserved_bytes": row["reserved_interval_bytes"],
            "card_bytes": row["peak_bytes"],
            "card_interval_bytes": row["interval_bytes"],
        }
        for row in memory["phases"]
    }


def compared(file: Path) -> dict[str, Any]:
    """A run of which a file has the record, beside what is predicted with its lengths.

    Seconds are those of each step by the trainer's timers: the first has what is compiled in it.
    """
    record, answer = read_record(file), advised([str(file)])
    predicted = predicted_phases(answer)
    steps = [step for step in record.steps if step.step > 0]
    rows = []
    for name in predicted:
        phase = Phase.UPDATE_WEIGHTS if name == _WAKE_UP else Phase(name)
        timer = None if name == _WAKE_UP else _SECONDS.get(phase)
        rows.append(
            {
                "phase": name,
                "predicted": predicted[name],
                "measured": {
                    **_measured(record, phase, own=name != _WAKE_UP),
                    "seconds": [step.values.get(f"timing_s/{timer}") for step in steps] if timer else [],
                },
            }
        )
    whole = [step.values.get("timing_s/step") for step in steps]
    named = {f"timing_s/{timer}" for timer in (*_SECONDS.values(), "step")}
    other = {
        name: [step.values.get(name) for step in steps]
        for name in sorted(set().union(*(step.values for step in steps)))
        if name.startswith("timing_s/") and name not in named
    }
    return {
        "run": None if record.run is None else record.run.name,
        "phases": rows,
        "step": {"predicted": answer["step_time"], "measured": whole},
        "further_timers": other,
        "lengths": {
            "prompt": [step.values.get("prompt_length/mean") for step in steps],
            "response": [step.values.get("response_length/mean") for step in steps],
            "longest": [step.values.get("response_length/max") for step in steps],
        },
    }


def _measured(record: RunRecord, phase: Phase, *, own: bool) -> dict[str, Any]:
    """The highest memory of a phase over ranks and steps; the weights before the first step count."""
    ended = [
        line
        for worker in record.workers
        for line in worker.phases
        if line.phase is phase and line.failed is None
    ]
    cards = [used for card in record.cards if card.phase is phase for used in card.used_bytes]
    return {
        "allocated_bytes": max((line.allocated_bytes or 0 for line in ended), default=None) if own else None,
        "reserved_bytes": max((line.reserved_bytes or 0 for line in ended), default=None) if own else None,
        "card_bytes": max([*cards, *(line.card_bytes or 0 for line in ended)], default=None),
    }


def table(comparison: dict[str, Any]) -> str:
    """The comparison as text."""
    lines = [
        f"{comparison['run']}: predicted | measured, GiB and seconds of each step",
        f"{'phase':<15}{'allocated':>18}{'reserved':>22}{'card':>18}  seconds",
    ]
    for row in comparison["phases"]:
        predicted, measured = row["predicted"], row["measured"]
        low, high = predicted.get("reserved_bytes") or (None, None)
        seconds = ", ".join("-" if one is None else f"{one:.2f}" for one in measured["seconds"])
        lines.append(
            f"{row['phase']:<15}"
            f"{_gib(predicted.get('allocated_bytes')):>8} |{_gib(measured['allocated_bytes']):>8}"
            f"{_gib(low):>7}-{_gib(high):<5} |{_gib(measured['reserved_bytes']):>7}"
            f"{_gib(predicted.get('card_bytes')):>8} |{_gib(measured['card_bytes']):>8}"
            f"  {predicted.get('seconds', float('nan')):.2f} | {seconds}"
        )
    whole = ", ".join(f"{one:.2f}" for one in comparison["step"]["measured"] if one is not None)
    lines.append(f"step: {comparison['step']['predicted']['seconds']:.2f} | {whole} s")
    for name, values in comparison["further_timers"].items():
        lines.append(f"{name}: " + ", ".join("-" if one is None else f"{one:.2f}" for one in values))
    return "\n".join(lines)


def _gib(size: int | None) -> str:
    return "-" if size is None else f"{size / GIB:.2f}"
