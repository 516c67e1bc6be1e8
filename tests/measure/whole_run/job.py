"""Starts the trainer, says how it goes, and ends it when its time is over."""

import json
import os
import platform
import re
import shlex
import signal
import subprocess
import threading
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from measure.whole_run.card import watched
from measure.whole_run.launch import command, environment
from measure.whole_run.plan import Plan

LOG, ABOUT = "log.txt", "about.json"
_PACKAGES = ("verl", "torch", "vllm", "ray", "transformers", "peft", "tensordict", "transferqueue")
_TROUBLE = re.compile(r"Error|Exception|Traceback|assert|OutOfMemory|No module|undefined symbol|no kernel")
_GRACE_S = 20.0
_SAY_EVERY_S = 20.0


def run_job(plan: Plan, materials: Path, output: Path, *, limit_s: float) -> int:
    """Run it; its exit status.

    Args:
        plan: of the run.
        materials: what it reads.
        output: folder for its log, its record and what ``nvidia-smi`` says.
        limit_s: seconds after which it is ended.
    """
    (output / "record").mkdir(parents=True, exist_ok=True)
    words = command(plan, materials, output)
    (output / "command.sh").write_text(" \\\n  ".join(shlex.quote(word) for word in words) + "\n")
    begun = time.time()
    with watched(output), (output / LOG).open("wb") as log:
        process = subprocess.Popen(
            words,
            cwd=output,
            env=environment(output),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _waited(process, plan, output / LOG, limit_s)
    about = {
        "plan": msgspec.to_builtins(plan),
        "words": words[2:],
        "folders": {"/materials": str(materials), "/run": str(output)},
        "begun": begun,
        "ended": time.time(),
        "code": code,
        "utc_offset_s": time.localtime().tm_gmtoff,
        **machine(),
    }
    (output / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return code


def _waited(process: "subprocess.Popen[bytes]", plan: Plan, log: Path, limit_s: float) -> int:
    """Wait for the job, or for its last step and a moment more; its exit status, 0 once it made its steps."""
    end, said = time.monotonic() + limit_s, time.monotonic()
    done: float | None = None
    while process.poll() is None:
        time.sleep(0.5)
        now = time.monotonic()
        if done is None and _made(log, plan.steps):
            done = now
        if now > end or (done is not None and now > done + _GRACE_S):
            _end(process)
            break
        if now > said + _SAY_EVERY_S:
            said = now
            print(f"[{datetime.now(timezone.utc):%T}] {last_line(log)}", flush=True)
    code = process.wait()
    return 0 if done is not None or _made(log, plan.steps) else (code or 1)


def _made(log: Path, steps: int) -> bool:
    return f"step:{steps} - " in log.read_text(errors="replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """As somebody at the keyboard would, and for good where that does not help."""
    process.send_signal(signal.SIGINT)
    killer = threading.Timer(_GRACE_S, lambda: os.killpg(process.pid, signal.SIGKILL))
    killer.start()
    process.wait()
    killer.cancel()


def last_line(log: Path) -> str:
    """The last line of a log, cut."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""


def trouble(log: Path, most: int = 40) -> list[str]:
    """Lines of a log that tell of errors, and its last ones."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [f"{number}: {line[:300]}" for number, line in enumerate(lines, 1) if _TROUBLE.search(line)]
    return [*errors[-most:], "...", *(line[:300] for line in lines[-most:])]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """The cards and the versions of this machine."""
    found = {name: _version(name) for name in _PACKAGES}
    packages = {name: version for name, version in found.items() if version is not None}
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        shown = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")
    except FileNotFoundError:
        shown = []
    return {
        "cards": [line for line in shown if line],
        "software": {"python": platform.python_version(), **packages},
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
    }
