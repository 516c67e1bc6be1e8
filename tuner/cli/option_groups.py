"""Commands whose parameters are structs of options, declared once for all commands."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import fields

from tuner.check.project_settings import SettingsNamed
from tuner.cli.options import SETTINGS_NAMED
from tuner.cli.premise_options import ANNOTATIONS
from tuner.consultation.premises import Premises

#: Structs of options that others know without typer, and how it declares their fields.
_SHARED: dict[type[Struct], dict[str, object]] = {Premises: ANNOTATIONS, SettingsNamed: SETTINGS_NAMED}


def with_premises(
    command: Callable[..., None], own_options: Mapping[type[Struct], dict[str, object]] = MappingProxyType({})
) -> Callable[..., None]:
    """A command as typer sees it: where a parameter is a struct of options, each of them an option.

    Args:
        command: its function.
        own_options: how typer declares structs that only this command has.
    """
    own = signature(command)
    groups: dict[str, type[Struct]] = {
        name: parameter.annotation
        for name, parameter in own.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Struct)
    }
    declared = {
        name: _declared(group, {**_SHARED, **own_options}.get(group)) for name, group in groups.items()
    }

    @wraps(command)
    def called_with_options(**arguments: object) -> None:
        for name, group in groups.items():
            options_of_group = {option.name: arguments.pop(option.name) for option in declared[name]}
            arguments[name] = group(**options_of_group)
        command(**arguments)

    parameters: list[Parameter] = []
    for name, parameter in own.parameters.items():
        keyword = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        parameters += declared.get(name, [keyword])
    called_with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called_with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called_with_options


def _declared(group: type[Struct], annotations: dict[str, object] | None) -> list[Parameter]:
    """The parameters that a struct of options stands for, which may declare its fields itself."""
    if annotations is None:
        annotations = {field.name: field.type for field in fields(group)}
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)
        for field in fields(group)
        if (annotation := annotations.get(field.name)) is not None
    ]
