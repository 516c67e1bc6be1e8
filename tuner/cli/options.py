"""Options that several commands share. Their help texts are what the documentation shows."""

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

import typer

from tuner.cli.completion import bundled_models, cards, keys
from tuner.errors import InputError
from tuner.language import ENGLISH, _, chosen, documented
from tuner.validate.parts import Part

SeverityName = Literal["error", "warning", "advice"]

Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help=_(
            "A verl configuration in YAML, a launch script, the command that starts verl as it is typed, or "
            "the log of a run; - reads any of these from standard input."
        ),
    ),
]
MaybeConfig = Annotated[
    str | None,
    typer.Argument(
        metavar="[CONFIG]",
        help=_(
            "The job that failed, as tuner advise takes it: a configuration in YAML, a launch script, the "
            "command as it is typed, or - for standard input. Left out, the error alone is explained."
        ),
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES...",
        help=_(
            "Hydra overrides: key=value, +key=value, ~key. Behind a script: its own arguments, and "
            "NAME=value for variables that it takes from its environment."
        ),
        autocompletion=keys,
    ),
]
Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help=_(
            "Configurations as advise takes them: files in YAML, launch scripts, logs, -, or one command as "
            "it is typed. A word with = that names no file is an override or a variable; it belongs to the "
            "files right before it, as do other words behind a script."
        ),
        autocompletion=keys,
    ),
]
WhichLaunch = Annotated[
    int | None,
    typer.Option(
        "--launch",
        min=1,
        metavar="NUMBER",
        help=_("Which launch of a script is meant, where it has several."),
        show_default=False,
    ),
]
PASTED = {"ignore_unknown_options": True}  # "python3 -m verl.trainer.main_ppo --config-name ..."


def refuse_misspelled(words: Iterable[str], command: Callable[..., None]) -> None:
    """Refuse a word that is nearly an option of a command, where options of other programs may stand.

    Raises:
        InputError: there is one.
    """
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    options = [option for option in options if option not in _OF_LAUNCHERS]
    if not options:
        return
    from difflib import get_close_matches
    from inspect import signature

    annotated = [parameter.annotation for parameter in signature(command).parameters.values()]
    declared = [mark for annotation in annotated for mark in getattr(annotation, "__metadata__", ())]
    # typer takes the first name, which stands where others have the default, for one.
    names = [
        (getattr(mark, "default", None), *(getattr(mark, "param_decls", None) or ())) for mark in declared
    ]
    own = [name for of_option in names for name in of_option if str(name).startswith("--")]
    for option in options:
        near = get_close_matches(option, own, 1, cutoff=_NEARLY)
        if near:
            raise InputError(
                _("there is no option {option}").format(option=option),
                hint=_("did you mean {near}?").format(near=near[0]),
            )


_OF_LAUNCHERS = ("--nnodes",)  # torchrun's, which is nearly one of ours
_NEARLY = 0.8  # of the letters: "--gpuu", "--node", "--verl-versoin"
VerlVersion = Annotated[
    str | None,
    typer.Option(
        "--verl-version",
        metavar="VERSION",
        help=_("Release of verl to go by; the installed one, else the newest bundled one."),
        show_default=False,
    ),
]
EngineVersion = Annotated[
    str | None,
    typer.Option(
        "--engine-version",
        metavar="VERSION",
        help=_(
            "Version of the rollout engine to go by, such as 0.8.5 of vLLM; the installed one unless "
            "--verl-version is given, else the newest that the release of verl allows."
        ),
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR|FILE",
        help=_(
            "Bundled model name, model folder or config.json, in place of the configuration's model path."
        ),
        show_default=False,
        autocompletion=bundled_models,
    ),
]
CriticModel = Annotated[
    str | None,
    typer.Option(
        "--critic-model",
        metavar="NAME|DIR|FILE",
        help=_("The same for the critic."),
        show_default=False,
        autocompletion=bundled_models,
    ),
]
RewardModel = Annotated[
    str | None,
    typer.Option(
        "--reward-model",
        metavar="NAME|DIR|FILE",
        help=_("The same for the reward model."),
        show_default=False,
        autocompletion=bundled_models,
    ),
]
Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help=_(
            "Count the model's tensors in transformers' implementation instead of deriving them; for "
            "architectures that the formulas do not know. Takes seconds the first time."
        ),
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="[COUNTx]NAME|FILE",
        help=_(
            "GPU to judge for: a name such as h100-sxm, or the file of a profile, which ends in .yaml; "
            "8xh100-sxm says how many one node has as well. This machine's GPU, else an assumed card of "
            "80 GB."
        ),
        show_default=False,
        autocompletion=cards,
    ),
]
GpusPerNode = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node",
        min=1,
        metavar="COUNT",
        help=_("GPUs of one node, in place of the configuration's."),
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=1,
        metavar="COUNT",
        help=_("Number of nodes, in place of the configuration's."),
        show_default=False,
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="RATE",
        help=_(
            "Each GPU's share of the network between nodes, one way, such as 400Gb/s or 50GB/s; that of the "
            "GPU's profile, else 400Gb/s."
        ),
        show_default=False,
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="RATE",
        help=_(
            "What a node writes to the storage of checkpoints, all of its GPUs together, such as 2GB/s; that "
            "of the GPU's profile, else 2GB/s."
        ),
        show_default=False,
    ),
]
MeanPromptLength = Annotated[
    float | None,
    typer.Option(
        "--mean-prompt-length",
        min=1,
        metavar="TOKENS",
        help=_("Mean length of prompts; half of the maximum is assumed."),
        show_default=False,
    ),
]
MeanResponseLength = Annotated[
    float | None,
    typer.Option(
        "--mean-response-length",
        min=1,
        metavar="TOKENS",
        help=_(
            "Mean length of responses, such as a run's response_length/mean; half of the maximum is "
            "assumed. The verdict, the seconds and the sequences that the KV cache holds at a time go by it."
        ),
        show_default=False,
    ),
]
ResponseP95 = Annotated[
    float | None,
    typer.Option(
        "--response-p95",
        min=1,
        metavar="TOKENS",
        help=_(
            "Length that 95 % of responses do not exceed: the room that a response gets in the KV cache, "
            "and the point from which only the last ones keep the rollout from its end."
        ),
        show_default=False,
    ),
]
ToolSeconds = Annotated[
    float | None,
    typer.Option(
        "--tool-seconds",
        min=0,
        metavar="SECONDS",
        help=_(
            "Seconds that the response which ends last waits for its tools, all turns together, such as a "
            "run's timing_s/agent_loop/slowest/tool_calls. Generation is as much longer, unless others go on "
            "meanwhile."
        ),
        show_default=False,
    ),
]
Turns = Annotated[
    float | None,
    typer.Option(
        "--turns",
        min=1,
        metavar="COUNT",
        help=_(
            "Mean number of turns in which a response is generated, one more than its calls of tools, such "
            "as half of a run's num_turns/mean. Each turn is a request of its own to the rollout engine."
        ),
        show_default=False,
    ),
]
ToolTokens = Annotated[
    int | None,
    typer.Option(
        "--tool-tokens",
        min=0,
        metavar="TOKENS",
        help=_(
            "Mean number of tokens that tools answer between two turns, which are part of the response and "
            "are not generated; half of what the settings allow is assumed."
        ),
        show_default=False,
    ),
]
ZeroAdvantageRatio = Annotated[
    float | None,
    typer.Option(
        "--zero-advantage-ratio",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help=_(
            "Share of the responses whose group got equal rewards, so that their advantage is 0: says what "
            "training without them would save."
        ),
        show_default=False,
    ),
]
ImagesPerPrompt = Annotated[
    int | None,
    typer.Option(
        "--images-per-prompt",
        min=0,
        metavar="COUNT",
        help=_(
            "Images of a prompt, 0 for none; for a model that sees them, the rollout engine's limit is "
            "taken, else 1."
        ),
        show_default=False,
    ),
]
ImagePixels = Annotated[
    int | None,
    typer.Option(
        "--image-pixels",
        min=1,
        metavar="PIXELS",
        help=_(
            "Pixels of an image once the processor has resized it, of the largest ones; 1,003,520 are "
            "assumed, or as many as a prompt has tokens for."
        ),
        show_default=False,
    ),
]
HostMemory = Annotated[
    float | None,
    typer.Option(
        "--host-memory",
        min=1,
        metavar="GIB",
        help=_("Host memory of one node in GiB, for advice that offloads to it."),
        show_default=False,
    ),
]
LARGEST_HEADROOM = 0.9
Headroom = Annotated[
    float,
    typer.Option(
        "--headroom",
        min=0.0,
        max=LARGEST_HEADROOM,
        metavar="SHARE",
        help=_("Share of the GPU's memory that advice leaves free."),
    ),
]
FailedAllocation = Annotated[
    str | None,
    typer.Option(
        "--failed-allocation",
        metavar="SIZE|LINE",
        help=_("Explain an out-of-memory error: its size, such as '18.54 GiB', or its whole line."),
        show_default=False,
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TIME",
        help=_("Time for the whole run: 120s, 2m or 90, which is in seconds."),
    ),
]
_PARTS = [part.value for part in Part]
Parts = Annotated[
    str | None,
    typer.Option(
        "--parts",
        metavar="PART,...",
        help=_("What to run, of {parts} and {last}; everything that can run here.").format(
            parts=", ".join(_PARTS[:-1]), last=_PARTS[-1]
        ),
        show_default=False,
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--nproc",
        min=1,
        metavar="COUNT",
        help=_("GPUs of this node that take part; all, but not more than the configuration has."),
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=_("Memory of each GPU that may be taken, such as 60GiB; buffers of NCCL come on top."),
        show_default=False,
    ),
]
Device = Annotated[
    Literal["cuda", "cpu"],
    typer.Option("--device", help=_("cpu tries the whole run without a GPU; its times say nothing.")),
]
WriteProfile = Annotated[
    str | None,
    typer.Option(
        "--write-profile",
        metavar="NAME",
        help=_("Write what was measured into a hardware profile of this name."),
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help=_("Write the report as JSON into this file too; tuner accuracy reads it."),
        show_default=False,
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help=_("Run on every node of this Ray cluster, one task each; auto takes the running one."),
        show_default=False,
    ),
]
TextOrJson = Annotated[
    Literal["text", "json"],
    typer.Option("--output-format", "-f", help=_("Text to read, or JSON with everything in bytes.")),
]
PageOrJson = Annotated[
    Literal["text", "json"],
    typer.Option("--output-format", "-f", help=_("Text to read, or JSON.")),
]
ColourName = Literal["auto", "always", "never"]
Colour = Annotated[
    ColourName,
    typer.Option("--color", help=_("Colours; auto follows the terminal, NO_COLOR and FORCE_COLOR.")),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help=_("Show the traceback of an internal error.")),
]


def examples(*commands: str) -> str:
    """The last lines of a help page; the mark keeps the lines as they are."""
    return "\b\n" + "\n".join([_("Examples:"), *(f"  {command}" for command in commands)])


def summary(command: Callable[..., None]) -> str | None:
    """The first lines of a command's help page: its docstring, which None stands for in English."""
    if chosen() == ENGLISH:
        return None
    return "\n\n".join(documented(" ".join(text.split())) for text in (command.__doc__ or "").split("\n\n"))
