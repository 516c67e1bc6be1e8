"""The options of the premises: what is said of release, models, cards, lengths, images and host."""

from typing import Annotated

import typer

from tuner.cli.completion import bundled_models, cards
from tuner.consultation.premises import LARGEST_HEADROOM, OPTIONS
from tuner.language import _

VerlVersion = Annotated[
    str | None,
    typer.Option(
        OPTIONS["verl_version"],
        "--release",
        metavar="VERSION",
        help=_(
            "Release of the trainer to go by, such as 0.9.1 of verl; the installed one, else the newest "
            "bundled one."
        ),
        show_default=False,
    ),
]
EngineVersion = Annotated[
    str | None,
    typer.Option(
        OPTIONS["engine_version"],
        metavar="VERSION",
        help=_(
            "Version of the rollout engine to go by, such as 0.8.5 of vLLM; the installed one unless "
            "--verl-version is given, else the newest that the release of the trainer allows."
        ),
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        OPTIONS["model"],
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
        OPTIONS["critic_model"],
        metavar="NAME|DIR|FILE",
        help=_("The same for the critic."),
        show_default=False,
        autocompletion=bundled_models,
    ),
]
RewardModel = Annotated[
    str | None,
    typer.Option(
        OPTIONS["reward_model"],
        metavar="NAME|DIR|FILE",
        help=_("The same for the reward model."),
        show_default=False,
        autocompletion=bundled_models,
    ),
]
Trace = Annotated[
    bool,
    typer.Option(
        OPTIONS["trace"],
        help=_(
            "Count the model's tensors in transformers' implementation instead of deriving them; for "
            "architectures that the formulas do not know. Takes seconds the first time."
        ),
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        OPTIONS["gpu"],
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
GpuMemory = Annotated[
    str | None,
    typer.Option(
        OPTIONS["gpu_memory"],
        metavar="SIZE",
        help=_(
            "Memory of each GPU, such as 24GiB, in place of that of --gpu; 24GB is the same, as makers of "
            "cards have it. Without --gpu a card of this size is assumed, with the speed of the nearest "
            "known one."
        ),
        show_default=False,
    ),
]
GpusPerNode = Annotated[
    int | None,
    typer.Option(
        OPTIONS["gpus_per_node"],
        min=1,
        metavar="COUNT",
        help=_("GPUs of one node, in place of the configuration's."),
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        OPTIONS["nodes"],
        min=1,
        metavar="COUNT",
        help=_("Number of nodes, in place of the configuration's."),
        show_default=False,
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        OPTIONS["network"],
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
        OPTIONS["storage"],
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
        OPTIONS["mean_prompt"],
        min=1,
        metavar="TOKENS",
        help=_("Mean length of prompts; half of the maximum is assumed."),
        show_default=False,
    ),
]
MeanResponseLength = Annotated[
    float | None,
    typer.Option(
        OPTIONS["mean_response"],
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
        OPTIONS["response_p95"],
        min=1,
        metavar="TOKENS",
        help=_(
            "Length that 95 % of responses do not exceed: the room that a response gets in the KV cache, "
            "and the point from which only the last ones keep the rollout from its end."
        ),
        show_default=False,
    ),
]
ResponseMax = Annotated[
    float | None,
    typer.Option(
        OPTIONS["response_max"],
        min=1,
        metavar="TOKENS",
        help=_(
            "Length of the longest response of a step, such as a run's response_length/max, with which the "
            "rollout ends; without it, the longest that is expected of so many responses. The seconds alone "
            "go by it."
        ),
        show_default=False,
    ),
]
KeptGroups = Annotated[
    float | None,
    typer.Option(
        OPTIONS["kept_groups"],
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help=_(
            "Share of groups of responses that algorithm.filter_groups keeps, since their rewards differ: as "
            "many more are generated. A log that has train/num_gen_batches tells it; 0.577 is assumed, from "
            "a third to all of them."
        ),
        show_default=False,
    ),
]
ToolSeconds = Annotated[
    float | None,
    typer.Option(
        OPTIONS["tool_seconds"],
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
        OPTIONS["turns"],
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
        OPTIONS["tool_tokens"],
        min=0,
        metavar="TOKENS",
        help=_(
            "Mean number of tokens that tools answer between two turns, which are part of the response and "
            "are not generated; half of what the settings allow is assumed."
        ),
        show_default=False,
    ),
]
ImagesPerPrompt = Annotated[
    int | None,
    typer.Option(
        OPTIONS["images_per_prompt"],
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
        OPTIONS["image_pixels"],
        min=1,
        metavar="PIXELS",
        help=_(
            "Pixels of an image once the processor has resized it, of the largest ones; 1,003,520 are "
            "assumed, or as many as a prompt has tokens for."
        ),
        show_default=False,
    ),
]
DataRows = Annotated[
    int | None,
    typer.Option(
        OPTIONS["data_rows"],
        min=1,
        metavar="COUNT",
        help=_(
            "Rows of the training data, prompts or sequences, that no filter drops: with the epochs "
            "of the settings they say how many steps there are, and so the hours."
        ),
        show_default=False,
    ),
]
ValRows = Annotated[
    int | None,
    typer.Option(
        OPTIONS["val_rows"],
        min=1,
        metavar="COUNT",
        help=_(
            "Rows of the validation data: with the settings they say how long a validation takes, and what "
            "of it falls on a step."
        ),
        show_default=False,
    ),
]
HostMemory = Annotated[
    float | None,
    typer.Option(
        OPTIONS["host_memory_gib"],
        min=1,
        metavar="GIB",
        help=_("Host memory of one node in GiB, for advice that offloads to it."),
        show_default=False,
    ),
]
Headroom = Annotated[
    float,
    typer.Option(
        OPTIONS["headroom"],
        min=0.0,
        max=LARGEST_HEADROOM,
        metavar="SHARE",
        help=_("Share of the GPU's memory that advice leaves free."),
    ),
]
Launch = Annotated[
    int | None,
    typer.Option(
        OPTIONS["launch"],
        min=1,
        metavar="NUMBER",
        help=_("Which launch of a script is meant, where it has several."),
        show_default=False,
    ),
]


ANNOTATIONS: dict[str, object] = {
    "verl_version": VerlVersion,
    "engine_version": EngineVersion,
    "model": Model,
    "critic_model": CriticModel,
    "reward_model": RewardModel,
    "trace": Trace,
    "gpu": Gpu,
    "gpu_memory": GpuMemory,
    "gpus_per_node": GpusPerNode,
    "nodes": Nodes,
    "network": Network,
    "storage": Storage,
    "mean_prompt": MeanPromptLength,
    "mean_response": MeanResponseLength,
    "response_p95": ResponseP95,
    "response_max": ResponseMax,
    "kept_groups": KeptGroups,
    "tool_seconds": ToolSeconds,
    "turns": Turns,
    "tool_tokens": ToolTokens,
    "images_per_prompt": ImagesPerPrompt,
    "image_pixels": ImagePixels,
    "data_rows": DataRows,
    "val_rows": ValRows,
    "host_memory_gib": HostMemory,
    "headroom": Headroom,
    "launch": Launch,
}
"""The options as typer takes them, by the fields of the premises, in the order of the help."""

HELP = {
    OPTIONS[name].removeprefix("--"): str(mark.help)
    for name, annotation in ANNOTATIONS.items()
    for mark in getattr(annotation, "__metadata__", ())
}
"""What the options take, by their names without the hyphens before them."""
