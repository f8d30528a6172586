"""Tools that a plugin gives to agents."""

import re
from collections.abc import Iterator

import orjson

from services.gateway.plugins.declarations import AgentTool, Manifest
from services.gateway.plugins.rules.terms import repeated, shown

MOST_TOOLS = 16
SURFACES = ("kanban-task", "office-task")
LONGEST_DESCRIPTION = 1024
LARGEST_SCHEMA = 64 * 1024
"""Bytes."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")


def tools(manifest: Manifest) -> Iterator[str]:
    """All tools: few, and only of a plugin whose process answers their calls."""
    if manifest.agent_tools and manifest.runtime is None:
        yield "agent_tools requires a runtime"
    if len(manifest.agent_tools) > MOST_TOOLS:
        yield f"agent_tools must not have more than {MOST_TOOLS} entries"
    for tool in manifest.agent_tools:
        yield from (f"agent tool {shown(tool.name)}: {problem}" for problem in _tool(tool))
    yield from (f"duplicate agent tool {shown(name)}" for name in repeated(tool.name for tool in manifest.agent_tools))


def _tool(tool: AgentTool) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield f"name must match ^{_NAME.pattern}$"
    if not 1 <= len(tool.description.encode()) <= LONGEST_DESCRIPTION:
        yield f"description must have 1 to {LONGEST_DESCRIPTION} bytes"
    if not tool.surfaces:
        yield f"surfaces must name at least one of {', '.join(SURFACES)}"
    for surface in tool.surfaces:
        if surface not in SURFACES:
            yield f"surface {shown(surface)} must be one of {', '.join(SURFACES)}"
    yield from (f"surface {shown(surface)} stands twice" for surface in repeated(tool.surfaces))
    if tool.input_schema is None:
        yield "input_schema must be an object"
    for field, schema in (("input_schema", tool.input_schema), ("output_schema", tool.output_schema)):
        if schema is not None and len(orjson.dumps(schema)) > LARGEST_SCHEMA:
            yield f"{field} must not be larger than {LARGEST_SCHEMA} bytes"
