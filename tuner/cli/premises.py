"""What the options of a command say of the job beside its configuration, declared once for all commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature

from msgspec import Struct
from msgspec.structs import fields

from tuner.cli import options, premise_options
from tuner.errors import InputError, Location
from tuner.language import _


class Premises(Struct, frozen=True, kw_only=True):
    """What the options say; None leaves it to the configuration and the machine."""

    verl_version: premise_options.VerlVersion = None
    engine_version: premise_options.EngineVersion = None
    model: premise_options.Model = None
    critic_model: premise_options.CriticModel = None
    reward_model: premise_options.RewardModel = None
    trace: premise_options.Trace = False
    gpu: premise_options.Gpu = None
    gpus_per_node: premise_options.GpusPerNode = None
    nodes: premise_options.Nodes = None
    network: premise_options.Network = None
    storage: premise_options.Storage = None
    mean_prompt: premise_options.MeanPromptLength = None
    mean_response: premise_options.MeanResponseLength = None
    response_p95: premise_options.ResponseP95 = None
    tool_seconds: premise_options.ToolSeconds = None
    turns: premise_options.Turns = None
    tool_tokens: premise_options.ToolTokens = None
    images_per_prompt: premise_options.ImagesPerPrompt = None
    image_pixels: premise_options.ImagePixels = None
    host_memory_gib: premise_options.HostMemory = None
    headroom: premise_options.Headroom = 0.1
    launch: options.WhichLaunch = None
    places: tuple[tuple[str, Location], ...] = ()  # fields that a settings file says, and where

    def source_of(self, name: str) -> str:
        """Who says a field: its option, or the place in a settings file."""
        return str(dict(self.places).get(name, OPTIONS[name]))

    def reason_with_source(self, name: str, reason: str) -> str:
        """The reason for what was chosen by a field, with the place where a settings file says the field."""
        place = dict(self.places).get(name)
        return reason if place is None else _("{reason}, by {place}").format(reason=reason, place=place)

    @contextmanager
    def naming_source(self, *names: str) -> Iterator[None]:
        """Let an error of a value that a settings file says name its line.

        Of several fields the error is of the one whose option its message names.
        """
        try:
            yield
        except InputError as error:
            said = [
                (name, place)
                for name, place in self.places
                if name in names and (len(names) == 1 or OPTIONS[name] in error.message)
            ]
            if not said or error.location is not None:
                raise
            name, place = said[0]
            raise InputError(
                error.message, location=place, key=OPTIONS[name].removeprefix("--"), hint=error.hint
            ) from None


def _option(annotation: object) -> str | None:
    """The name of the option that a field declares; None of one that declares none."""
    for mark in getattr(annotation, "__metadata__", ()):
        # typer takes the first name, which stands where others have the default, for one.
        for name in (getattr(mark, "default", None), *(getattr(mark, "param_decls", None) or ())):
            if isinstance(name, str) and name.startswith("--"):
                return name
    return None


OPTIONS = {field.name: name for field in fields(Premises) if (name := _option(field.type)) is not None}
"""The names of the options by the fields of :class:`Premises`."""


HELP = {
    OPTIONS[field.name].removeprefix("--"): str(mark.help)
    for field in fields(Premises)
    for mark in getattr(field.type, "__metadata__", ())
    if field.name in OPTIONS and getattr(mark, "help", None)
}
"""What the options take, by their names without the hyphens before them."""


def with_premises(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer sees it: where a parameter is a struct of options, each of them an option."""
    own = signature(command)
    groups: dict[str, type[Struct]] = {
        name: parameter.annotation
        for name, parameter in own.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Struct)
    }
    declared = {name: _declared(group) for name, group in groups.items()}

    @wraps(command)
    def called_with_options(**arguments: object) -> None:
        for name, group in groups.items():
            said = {option.name: arguments.pop(option.name) for option in declared[name]}
            arguments[name] = group(**said)
        command(**arguments)

    parameters: list[Parameter] = []
    for name, parameter in own.parameters.items():
        keyword = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        parameters += declared.get(name, [keyword])
    called_with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called_with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called_with_options


def _declared(group: type[Struct]) -> list[Parameter]:
    """The parameters that a struct of options stands for."""
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(group)
        if _option(field.type) is not None
    ]
