"""What the options of a command say of the job beside its configuration, declared once for all commands."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature

from msgspec import Struct
from msgspec.structs import fields

from tuner.cli import options


class Premises(Struct, frozen=True, kw_only=True):
    """What the options say; None leaves it to the configuration and the machine."""

    verl_version: options.VerlVersion = None
    engine_version: options.EngineVersion = None
    model: options.Model = None
    critic_model: options.CriticModel = None
    reward_model: options.RewardModel = None
    trace: options.Trace = False
    gpu: options.Gpu = None
    gpus_per_node: options.GpusPerNode = None
    nodes: options.Nodes = None
    network: options.Network = None
    mean_prompt: options.MeanPromptLength = None
    mean_response: options.MeanResponseLength = None
    response_p95: options.ResponseP95 = None
    tool_seconds: options.ToolSeconds = None
    images_per_prompt: options.ImagesPerPrompt = None
    image_pixels: options.ImagePixels = None
    host_memory_gib: options.HostMemory = None
    headroom: options.Headroom = 0.1
    launch: options.WhichLaunch = None


def with_premises(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer sees it: each of the premises an option of its own, where ``premises`` stands."""
    declared = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(Premises)
    ]
    names = [parameter.name for parameter in declared]

    @wraps(command)
    def called_with_options(**arguments: object) -> None:
        premises = Premises(**{name: arguments.pop(name) for name in names})  # type: ignore[arg-type]
        command(**arguments, premises=premises)

    own = signature(command)
    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        keyword = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        parameters += declared if parameter.name == "premises" else [keyword]
    called_with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called_with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called_with_options
