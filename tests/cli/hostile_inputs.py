"""Files that nobody would write by hand."""

from pathlib import Path


def unknown_keys(count: int, folder: Path) -> Path:
    """A configuration with so many keys that verl does not know."""
    file = folder / "config.yaml"
    file.write_text(
        "actor_rollout_ref:\n  model: {path: Qwen/Qwen3-8B}\n  rollout:\n    name: vllm\n"
        + "".join(f"    gpu_memory_utilization_{number}: 0.5\n" for number in range(count))
    )
    return file
