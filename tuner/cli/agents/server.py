"""A server of the Model Context Protocol over standard input and output.

It reads files below its root alone, writes none, and answers one question at a time.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as protocol
from anyio import to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

import tuner
from tuner import shipped
from tuner.cli.agents.tools import TOOLS, Tool
from tuner.errors import TunerError
from tuner.files import reading_only_below
from tuner.inputs.secrets import without_secrets
from tuner.render.error_text import error_text

INSTRUCTIONS = """\
Numbers are modelled unless their evidence says otherwise: quote them with their interval, and say what is \
assumed (premises). Sizes are bytes, times are seconds. Arguments have the names of the command's options: \
--mean-response-length of a message is mean_response_length. Where a tool asks for the card, the model or a \
release, ask the user; do not guess. Usual order: check, advise, apply combination.overrides, run, then \
advise with log= to compare what was measured."""

_by_name = {tool.name: tool for tool in TOOLS}


def serve(root: Path) -> None:
    """Answer until standard input ends.

    Args:
        root: the folder below which files are read; the working folder of the process.
    """
    with reading_only_below(root, Path(tuner.__file__).parent, shipped.profiles()):
        anyio.run(_serve)


async def _serve() -> None:
    server = server_of_tools()
    async with stdio_server() as (asked, answered):
        await server.run(asked, answered, server.create_initialization_options())


def server_of_tools() -> "Server[Any]":
    """The server, which any transport may drive."""
    turn = anyio.Lock()  # what a run remembers is the process's

    async def call(
        _context: ServerRequestContext[Any], asked: protocol.CallToolRequestParams
    ) -> protocol.CallToolResult:
        async with turn:
            return await to_thread.run_sync(answer, asked.name, asked.arguments or {})

    return Server(
        "tuner",
        version=tuner.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_listed,
        on_call_tool=call,
    )


async def _listed(
    _context: ServerRequestContext[Any], _asked: protocol.PaginatedRequestParams | None
) -> protocol.ListToolsResult:
    return protocol.ListToolsResult(tools=[_described(tool) for tool in TOOLS])


def _described(tool: Tool) -> protocol.Tool:
    return protocol.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        annotations=protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def answer(name: str, arguments: dict[str, Any]) -> protocol.CallToolResult:
    """The result of one call; whatever goes wrong is said in it."""
    tool = _by_name.get(name)
    if tool is None:
        return _refusal({"error": f"there is no tool {name}", "hint": f"there are {', '.join(_by_name)}"})
    try:
        return _result(tool.answer(arguments), failed=False)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        return _refusal({"error": without_secrets("; ".join(wrong))})
    except TunerError as error:
        return _refusal(_told_error(error))
    except Exception as error:  # a fault of ours ends one call, not the server
        return _refusal({"error": without_secrets(f"internal error: {type(error).__name__}: {error}")})


def _told_error(error: TunerError) -> dict[str, Any]:
    """The parts of an error, without what is secret."""
    place = error.location
    return {
        "error": error_text(error),
        "key": error.key,
        "file": None if place is None else place.source,
        "line": None if place is None else place.line,
    }


def _refusal(said: dict[str, Any]) -> protocol.CallToolResult:
    return _result(said, failed=True)


def _result(content: dict[str, Any], *, failed: bool) -> protocol.CallToolResult:
    content = _encodable(content)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return protocol.CallToolResult(
        content=[protocol.TextContent(type="text", text=text)], structured_content=content, is_error=failed
    )


def _encodable(value: Any) -> Any:
    """A value whose texts UTF-8 can hold: a file's name may have bytes that it cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(child) for key, child in value.items()}
    return [_encodable(child) for child in value] if isinstance(value, (list, tuple)) else value
