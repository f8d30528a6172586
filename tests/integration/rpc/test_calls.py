"""Who may list messages, and what is refused with which words."""

import asyncio
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from cli.errors import CommandFailed
from cli.plugin import plugin as plugin_command
from tests.integration.rpc.calls import EXECUTABLES, METHOD, RUNTIME, Calls, Plugin
from tests.integration.rpc.conftest import MakePlugin
from tests.support.plugins import manifest, package, upload
from tests.support.stack import Stack

DENIED = ("PERMISSION_DENIED", "capability 'api_read:messages' not declared")


async def test_without_the_capability_a_list_is_denied_whatever_it_asks(
    channel: grpc.aio.Channel, make_plugin: MakePlugin
) -> None:
    for reads in ((), ("tasks", "sessions")):
        calls = Calls(channel, (await make_plugin(reads)).token)
        assert await calls.refused() == DENIED
        # Before the arguments: what they are must not matter.
        assert await calls.refused(since="never", types=["x"] * 401) == DENIED


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "kandev_plugin_",
        "kandev_plugin_00000000_" + "a" * 43,
        "kandev_pat_00000000_" + "a" * 43,
        "x" * 5000,
    ],
)
async def test_who_proves_nothing_is_told_so(channel: grpc.aio.Channel, token: str | None) -> None:
    status, text = await Calls(channel, token).refused()
    assert status == "UNAUTHENTICATED"
    assert "aaaa" not in text
    assert "xxxx" not in text


async def test_a_token_of_another_secret_is_none(channel: grpc.aio.Channel, plugin: Plugin) -> None:
    assert (await Calls(channel, plugin.token[:-1] + ("a" if plugin.token[-1] != "a" else "b")).refused())[0] == (
        "UNAUTHENTICATED"
    )


async def test_a_plugin_that_is_disabled_is_nobody_and_comes_back(
    shared_stack: Stack, channel: grpc.aio.Channel, make_plugin: MakePlugin
) -> None:
    plugin = await make_plugin()
    calls = Calls(channel, plugin.token)
    await calls.page()
    assert (await shared_stack.call("POST", f"/api/plugins/{plugin.id}/disable"))[0] == 200
    assert (await calls.refused())[0] == "UNAUTHENTICATED"
    assert (await shared_stack.call("POST", f"/api/plugins/{plugin.id}/enable"))[0] == 200
    await calls.page()


async def test_a_plugin_that_is_removed_takes_its_token_along(shared_stack: Stack, channel: grpc.aio.Channel) -> None:
    archive = package(manifest("gone", more={"runtime": RUNTIME}), **EXECUTABLES)
    status, body = await upload(shared_stack, archive)
    assert status == 201, body
    calls = Calls(channel, body["token"])
    await calls.page()
    assert (await shared_stack.call("DELETE", "/api/plugins/gone"))[0] == 200
    assert (await calls.refused())[0] == "UNAUTHENTICATED"
    # Installed anew, it is somebody else: the earlier token was looked up a moment ago and must not be remembered.
    _, again = await upload(shared_stack, archive)
    assert again["token"] != body["token"]
    assert (await calls.refused())[0] == "UNAUTHENTICATED"
    await Calls(channel, again["token"]).page()


async def test_an_upgrade_keeps_the_token_and_another_one_ends_it(
    shared_stack: Stack, channel: grpc.aio.Channel
) -> None:
    runtime = {"runtime": RUNTIME}
    _, first = await upload(shared_stack, package(manifest("kept", more=runtime), **EXECUTABLES))
    _, second = await upload(shared_stack, package(manifest("kept", "1.1.0", more=runtime), **EXECUTABLES))
    assert "token" not in second
    calls = Calls(channel, first["token"])
    await calls.page()
    _, body = await shared_stack.call("POST", "/api/plugins/kept/token")
    assert (await calls.refused())[0] == "UNAUTHENTICATED"
    await Calls(channel, str(body["token"])).page()
    stored = await shared_stack.pool.fetch("SELECT t::text FROM gateway.plugin_tokens t")
    assert all(str(body["token"])[-43:] not in row[0] for row in stored)


async def test_a_plugin_of_the_browser_alone_is_given_no_token(shared_stack: Stack) -> None:
    status, body = await upload(shared_stack, package(manifest("browser")))
    assert status == 201
    assert "token" not in body


async def test_a_plugin_that_is_not_there_has_no_token(shared_stack: Stack) -> None:
    for name in ("nobody", "a%00b", "%F0%9F%90%98" * 100):
        assert (await shared_stack.call("POST", f"/api/plugins/{name}/token"))[0] == 404


async def test_401_values_are_refused_and_400_are_not(calls: Calls) -> None:
    most = {"session_ids": ["s"] * 200, "task_ids": ["t"] * 100, "types": ["x"] * 100}
    assert await calls.ids(**most) == []
    most["types"].append("x")
    refused = ("INVALID_ARGUMENT", "message filter has 401 session/task/type values, max 400")
    assert await calls.refused(**most) == refused
    assert await calls.refused(types=["x"] * 401, since="never") == refused


async def test_a_filter_of_any_size_is_refused_by_its_count_or_its_bytes(calls: Calls) -> None:
    ids = [f"{number:036}" for number in range(10_000)]
    assert await calls.refused(task_ids=ids) == (
        "INVALID_ARGUMENT",
        "message filter has 10000 session/task/type values, max 400",
    )
    assert (await calls.refused(task_ids=ids * 10))[0] == "RESOURCE_EXHAUSTED"


async def test_a_capability_that_an_upgrade_takes_away_is_missing_from_the_next_page_on(
    shared_stack: Stack, channel: grpc.aio.Channel
) -> None:
    runtime = {"runtime": RUNTIME}
    _, first = await upload(shared_stack, package(manifest("lesser", more=runtime), **EXECUTABLES))
    calls = Calls(channel, first["token"])
    await calls.page()
    lesser = manifest("lesser", "1.1.0", reads=(), more=runtime)
    assert (await upload(shared_stack, package(lesser, **EXECUTABLES)))[0] == 201
    assert await calls.refused() == DENIED


@pytest.mark.parametrize("field", ["since", "until"])
@pytest.mark.parametrize(
    "text", ["yesterday", "2026-11-30", "2026-11-30T10:00:00", "2026-02-30T10:00:00Z", "\x00", "1"]
)
async def test_a_time_that_is_none_is_refused(calls: Calls, field: str, text: str) -> None:
    status, said = await calls.refused(**{field: text})
    assert status == "INVALID_ARGUMENT"
    assert said.startswith(f"{field} must be RFC3339: ")
    assert text not in said.removeprefix(f"{field} must be RFC3339: ") or text == "1"


async def test_what_is_no_request_is_refused_once_it_is_known_who_sent_it(
    channel: grpc.aio.Channel, calls: Calls
) -> None:
    for garbage in (b"\xff", b"\x0a\x05\x0a\x03\xff\xfe\xfd"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await calls.raw(garbage)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Calls(channel, None).raw(garbage)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_character_that_nothing_can_hold_is_refused(calls: Calls) -> None:
    assert (await calls.refused(task_ids=["a\x00b"]))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "method",
    [
        *("GetTask", "ListTasks", "ListWorkspaces", "ListWorkflows", "ListWorkflowSteps", "ListAgentProfiles"),
        *("ListExecutorProfiles", "ListRepositories", "ListSessions", "ListSessionCodeStats", "SendMessage"),
        *("CreateTask", "UpdateTask", "GetState", "SetState", "DeleteState", "ListState", "RevealSecret", "GetSecret"),
        *("SetSecret", "DeleteSecret", "EmitEvent", "GetConfig", "InvokeUtilityAgent"),
        *("PreviewPluginOwnedTaskTree", "DeletePluginOwnedTaskTree"),
    ],
)
async def test_its_neighbours_are_not_offered(calls: Calls, method: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await calls.raw(b"", method=METHOD.replace("ListMessages", method))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_health(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "kandev.plugin.v1.Host"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    absent = health_pb2.HealthCheckRequest(service="absent")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await health.Check(absent)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    watch = health.Watch(absent)
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


async def test_a_client_that_knows_nothing_is_told_the_service(shared_stack: Stack, plugin: Plugin) -> None:
    """As grpcurl does: by reflection alone, without the generated code."""

    def explore() -> tuple[list[str], str, dict[str, int]]:
        with grpc.insecure_channel(shared_stack.rpc_of()) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            service = DescriptorPool(database).FindServiceByName("kandev.plugin.v1.Host")
            method = service.FindMethodByName("ListMessages")
            message = method.output_type.fields_by_name["messages"].message_type
            assert message is not None
            fields = {each.name: each.number for each in message.fields}
            return list(database.get_services()), method.input_type.full_name, fields

    services, request, fields = await asyncio.to_thread(explore)
    assert {"kandev.plugin.v1.Host", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} <= {*services}
    assert request == "kandev.plugin.v1.ListMessagesRequest"
    names = ("id", "session_id", "task_id", "turn_id", "author_type", "content", "type", "created_at")
    assert fields == {name: number for number, name in enumerate(names, start=1)}


async def test_the_command_shows_a_token_once_and_makes_another(
    shared_stack: Stack, channel: grpc.aio.Channel, tmp_path: Path
) -> None:
    target = tmp_path / "package.tar.gz"
    target.write_bytes(package(manifest("commanded", more={"runtime": RUNTIME}), **EXECUTABLES))

    async def command(*arguments: str) -> Result:
        parts = [*arguments, "--url", shared_stack.url]
        return await asyncio.to_thread(CliRunner().invoke, plugin_command, parts)

    installed = await command("install", str(target))
    first = installed.stdout.strip()
    assert first.startswith("kandev_plugin_")
    assert "shown this once" in installed.stderr
    await Calls(channel, first).page()
    replaced = await command("token", "commanded")
    assert (replaced.exit_code, replaced.stdout.count("\n")) == (0, 1)
    await Calls(channel, replaced.stdout.strip()).page()
    assert (await Calls(channel, first).refused())[0] == "UNAUTHENTICATED"
    unknown = await command("token", "unknown")
    assert isinstance(unknown.exception, CommandFailed)
    assert "no such plugin" in str(unknown.exception)
