"""What a script asks the machine, and how a machine with the accelerators of the question answers."""

import re
from collections.abc import Iterator, Sequence

from tuner.errors import Location
from tuner.inputs.machine import AMD, HUAWEI, NVIDIA, TargetMachine
from tuner.inputs.shell.carriers import PYTHON
from tuner.inputs.shell.values import Text, Unknown, text

# What tells of an accelerator: tools, modules of Python, files of devices and of drivers.
_TELLING = {
    HUAWEI: re.compile(r"npu|ascend|cann\b|davinci", re.IGNORECASE),
    AMD: re.compile(r"rocm|\bamd-smi\b|\bhip(?:cc|config)\b|torch\.version\.hip\b|/dev/kfd", re.IGNORECASE),
    NVIDIA: re.compile(r"\bnvidia\b|nvidia-|/nvidia|\bnvcc\b|\bcuda\b|version\.cuda\b", re.IGNORECASE),
}
_CUDA_OF_TORCH = re.compile(r"torch\.cuda\b")  # which AMD's cards answer to as well
_TOOLS = re.compile(r"(?:npu|nvidia|rocm|amd)-smi|rocminfo|nvcc|hipcc|hipconfig")
_ASKING = frozenset(
    {
        *("grep", "pgrep", "which", "command", "type", "hash", "nc", "diff", "cmp"),
        *("python", "python3", "lspci", "ls"),
    }
)
_LOOKING = ("which", "command", "type")
_PYTHON = frozenset({"python", "python3"})
_COUNT = re.compile(r"print\(\s*torch\.(?:cuda|npu)\.device_count\(\)\s*\)\s*;?\s*")
_DEVICE = re.compile(r"print\(\s*get_device_name\(\)\s*\)\s*;?\s*")  # of verl.utils.device
_LISTING = re.compile(r"-L|--list-gpus|--query-gpu=(?:name|gpu_name|index|uuid|gpu_uuid|memory\.total)")
_HOOK = re.compile(r"\b(?:conda|mamba|micromamba|pixi|pyenv|direnv|brew|ssh-agent|module|modulecmd|lmod)\b")


def is_hook(text: str) -> bool:
    """Whether commands that are printed only prepare the shell, as an environment of Python needs it."""
    return _HOOK.search(text) is not None


def has(machine: TargetMachine, what: str) -> bool | None:
    """Whether a machine has a tool, a module or a file; None for what tells of no accelerator."""
    if _CUDA_OF_TORCH.search(what) and not _TELLING[HUAWEI].search(what):
        return machine.vendor in (NVIDIA, AMD)
    vendors = [vendor for vendor, telling in _TELLING.items() if telling.search(what)]
    return vendors[0] == machine.vendor if vendors else None


def is_of_other(machine: TargetMachine, words: str) -> bool:
    """Whether a text speaks of an accelerator that is no GPU, where the machine has GPUs."""
    return machine.vendor != HUAWEI and _TELLING[HUAWEI].search(words) is not None


def answer(words: Sequence[Text], machine: TargetMachine) -> tuple[bool | None, bool]:
    """Whether a program succeeds, and whether that is taken from the machine that is assumed.

    A program that does work is taken to succeed, as the script is written for; one that only asks has an
    answer that nobody knows, unless it asks for an accelerator.
    """
    name = str(words[0]).rpartition("/")[2] if words else ""
    asks = name in _ASKING and not any(str(word) == "-m" or str(word).endswith(".py") for word in words)
    is_tool = _TOOLS.fullmatch(name) is not None
    if not asks and not is_tool:
        return True, False
    there = has(machine, " ".join(map(str, words)))
    if there is None and _interpreter(words) is not None:
        return True, False
    return (there, True) if there is not None else (None if asks else True, False)


def printed_by_machine(
    words: Sequence[Text], machine: TargetMachine, place: Location, given: Text | None = None
) -> Text | None:
    """What a program prints that asks the machine; None where that is not known.

    Args:
        words: the program and its arguments.
        machine: that is asked.
        place: where.
        given: the program's standard input, None where nobody says.
    """
    name = str(words[0]).rpartition("/")[2]
    known = [word.string or "" for word in words]
    code = None
    if name in _PYTHON and len(words) == 3 and known[1] == "-c":
        code = known[2]
    elif name in _PYTHON and known[1:] in ([], ["-"]) and given is not None:
        code = given.string
    if code:
        return _printed_by_python(code, machine)
    if name in _LOOKING and has(machine, " ".join(known)) is False:
        return Text()
    interpreter = _interpreter(words)
    if interpreter is not None:
        return text(f"{interpreter}\n")
    if name == "nvidia-smi" and machine.vendor != NVIDIA:
        return Text()
    lists = name == "nvidia-smi" and any(map(_LISTING.fullmatch, known))
    return text(*_lines(machine.per_node, place)) if lists and machine.per_node is not None else None


def _interpreter(words: Sequence[Text]) -> str | None:
    """The Python that a script looks for, and has to be there: ``command -v python3``."""
    known = [word.string or "" for word in words]
    looked_for = [word for word in known[1:] if not word.startswith("-")]
    looks = known[0] in _LOOKING[:2] and len(looked_for) == 1
    return looked_for[0] if looks and PYTHON.fullmatch(looked_for[0]) else None


def _printed_by_python(code: str, machine: TargetMachine) -> Text | None:
    """What a few lines of Python print: those that only import print nothing."""
    if "print" not in code and "write" not in code:
        return Text()
    printed = code[code.index("print") :] if "print" in code else ""
    if _DEVICE.fullmatch(printed):
        return text("npu\n" if machine.vendor == HUAWEI else "cuda\n")
    if _COUNT.fullmatch(printed) and machine.per_node is not None:
        return text(f"{machine.per_node if has(machine, code) else 0}\n")
    return None


def _lines(count: int, place: Location) -> Iterator[str | Unknown]:
    """A line for each card, of which nobody knows what it says."""
    for number in range(count):
        yield Unknown(name="", text=f"$(GPU {number})", location=place, one_line=True)
        yield "\n"
