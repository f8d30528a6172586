"""Every rule of a manifest: what keeps it is accepted, what breaks it is told, all of it at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.plugins.manifest import ManifestInvalid, parse_manifest, read_manifest
from services.gateway.plugins.notes import MOST_NOTES
from tests.unit.plugins.making import BROWSER_ONLY, FULL, changed, text

MIB = 1024 * 1024
READ = changed(FULL, "capabilities.api_read", ["messages", "tasks"])
TOOL = FULL["agent_tools"][0]
BINDING = FULL["ui"]["keybindings"][0]


def problems(data: bytes) -> tuple[str, ...]:
    with pytest.raises(ManifestInvalid) as refused:
        parse_manifest(data)
    return refused.value.problems


@pytest.mark.parametrize("manifest", [BROWSER_ONLY, FULL])
def test_a_manifest_that_keeps_the_rules_is_accepted(manifest: dict[str, Any]) -> None:
    assert parse_manifest(text(manifest)).id == "notes"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("id", "0a._-b"),
        ("id", "x" * 128),
        ("api_version", 1),
        ("version", "2026.12-rc.1+x"),
        ("version", "v" * 128),
        ("runtime", None),
        ("repo_url", "  http://example.org  "),
        ("repo_url", ""),
        ("unknown", {"of": "a newer host"}),
        ("web_apps", [1]),
        ("capabilities.host_read", [{"name": "x", "version": 2}]),
        ("min_kandev_version", "0.91.1"),
        ("min_kandev_version", "v0.92"),
        ("ui.pages.0.surface", "settings"),
        ("ui.pages.0.surface", "task-panel"),
        ("ui.keybindings.0.default", "Ctrl + Alt + 5"),
        ("ui.keybindings.0.default", "meta+F12"),
        ("ui.keybindings.0.default", "shift+mod+enter"),
        ("webhooks.0.max_body_bytes", 1),
        ("agent_tools.0.output_schema", {"type": "object"}),
        ("agent_tools.0.description", "é" * 512),
        ("agent_tools.0.name", "a" * 32),
        ("agent_tools", [{**TOOL, "name": f"tool_{number}"} for number in range(16)]),
        ("agent_tools.0.input_schema", {"description": "x" * (64 * 1024 - 18)}),
        ("reference_sources.0.source", "a" * 128),
        ("config_schema", None),
    ],
)
def test_what_the_rules_allow(path: str, value: Any) -> None:
    manifest = changed(FULL, path, value)
    if path == "runtime":
        del manifest["agent_tools"]
    parse_manifest(text(manifest))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("id", "", 'invalid plugin id "": must match ^[a-z0-9][a-z0-9._-]*$'),
        ("id", "Notes", 'invalid plugin id "Notes": must match'),
        ("id", "-notes", 'invalid plugin id "-notes": must match'),
        ("id", "a/b", 'invalid plugin id "a/b": must match'),
        ("id", "notes\n", 'invalid plugin id "notes\\n": must match'),
        ("id", "notes.config", 'invalid plugin id "notes.config": must not end in ".config"'),
        ("id", "install", 'invalid plugin id "install": an address of the host has this name'),
        ("id", "x" * 129, "must not be longer than 128 characters"),
        ("api_version", 0, "unsupported api_version 0: only 1 and 2 are supported"),
        ("api_version", 3, "unsupported api_version 3"),
        ("version", "", "version must not be empty"),
        ("version", "1 0", "version must not contain whitespace"),
        ("version", "1\u00a00", "version must not contain whitespace"),
        ("version", "1\u001b0", "version must not contain whitespace or control characters"),
        ("version", "1/0", "version must be a single path segment"),
        ("version", "1\\0", "version must be a single path segment"),
        ("version", ".", 'version must not be "." or ".."'),
        ("version", "..", 'version must not be "." or ".."'),
        ("version", "v" * 129, "version must not be longer than 128 characters"),
        ("categories", ["tools", "games"], 'unknown category "games"'),
        ("icon", "../icon.svg", 'icon "../icon.svg" must be a clean relative path'),
        ("icon", "/icon.svg", 'icon "/icon.svg" must be relative'),
        ("repo_url", "ftp://example.org", 'repo_url "ftp://example.org" must be an http(s) URL'),
        ("repo_url", "https://", "must be an http(s) URL"),
        ("repo_url", "http://[", "must be an http(s) URL"),
        ("repo_url", "javascript:alert(1)", "must be an http(s) URL"),
        ("repo_url", "https://example.org/a b", "must be an http(s) URL"),
        ("runtime.type", "wasm", 'runtime.type "wasm" is invalid: only "binary" is supported'),
        ("runtime.executables", {}, "runtime.executables must declare at least one entry"),
        ("runtime.executables.linux-amd64", "", 'runtime.executables["linux-amd64"]: path must not be empty'),
        ("runtime.executables.linux-amd64", "/bin/sh", 'executables["linux-amd64"]: path must be relative'),
        ("runtime.executables.linux-amd64", "a/../b", 'path must be a clean relative path with no ".." segments'),
        ("runtime.executables.linux-amd64", "./a", "path must be a clean relative path"),
        ("runtime.executables.linux-amd64", "a//b", "path must be a clean relative path"),
        ("base_url", "http://x", "base_url must be empty for a runtime-managed plugin"),
        ("endpoints.health", "/h", "endpoints.health must be empty for a runtime-managed plugin"),
        ("endpoints.events", "/e", "endpoints.events must be empty for a runtime-managed plugin"),
        ("endpoints.webhooks", "/w", "endpoints.webhooks must be empty for a runtime-managed plugin"),
        ("ui.pages.0.surface", "attic", 'page "main": expected one of settings, task-panel, main-nav'),
        ("ui.bundle", "ui/bundle.js", 'ui.bundle "ui/bundle.js" must be a root-relative path (start with "/")'),
        ("ui.bundle", "/../x.js", 'ui.bundle "/../x.js": the path below the root must be a clean relative path'),
        ("ui.bundle", "//x.js", "the path below the root must be relative"),
        ("ui.styles", ["plugin.css"], 'ui.styles entry "plugin.css" must be a root-relative path'),
        ("ui.styles", ["/a\\b.css"], "the path below the root must not contain a backslash or a colon"),
        ("ui.bundle", "", "ui.keybindings requires ui.bundle to be set"),
        ("ui.keybindings.0.id", "Open Notes", 'invalid keybinding id "Open Notes"'),
        ("ui.keybindings", [BINDING, BINDING], 'duplicate keybinding id "open-notes"'),
        ("ui.keybindings.0.description", " ", 'keybinding "open-notes": description must not be empty'),
        ("ui.keybindings.0.default", "mod+hyper+k", 'default has an unknown key "hyper"'),
        ("ui.keybindings.0.default", "mod+", 'default has an unknown key ""'),
        ("ui.keybindings.0.default", "mod", "must have exactly one key besides its modifiers, not 0"),
        ("ui.keybindings.0.default", "mod+a+b", "must have exactly one key besides its modifiers, not 2"),
        ("ui.keybindings.0.default", "mod+shift+1", 'must not combine shift with "1", which shift alters'),
        ("ui.keybindings.0.default", "mod+shift+/", 'must not combine shift with "/"'),
        ("ui.keybindings.0.default", "shift+k", "allow_in_editor needs a modifier other than shift"),
        ("ui.keybindings.0.default", "k", "allow_in_editor needs a modifier other than shift"),
        ("webhooks.2.key", "", 'webhook "": key must not be empty'),
        ("webhooks.2.key", "upload", 'duplicate webhook key "upload"'),
        ("webhooks.2.access", "admin", 'webhook "hook": access "admin" must be public or authenticated'),
        ("webhooks.2.max_body_bytes", 0, "max_body_bytes must be between 1 and 16777216"),
        ("webhooks.1.max_body_bytes", 16 * MIB + 1, 'webhook "upload": max_body_bytes must be between 1 and 16777216'),
        ("webhooks.2.max_body_bytes", 4 * MIB + 1, "max_body_bytes above 4194304 requires access authenticated"),
        ("actions.0.key", "Save!", 'action "Save!": key must match'),
        ("actions.0.key", "load", 'duplicate action key "load"'),
        ("actions.0.scope", "instance", 'scope "instance" must be one of workspace, task, repository'),
        ("actions.0.access", "public", 'access "public" must be authenticated or admin'),
        ("actions.0.max_body_bytes", 0, "max_body_bytes must be between 1 and 1048576"),
        ("actions.0.max_body_bytes", MIB + 1, "max_body_bytes must be between 1 and 1048576"),
        ("repository_providers", ["GitHub"], 'repository provider "GitHub" must match'),
        ("repository_providers", [" git"], 'repository provider " git" must match'),
        ("repository_providers", ["git", "git"], 'duplicate repository provider "git"'),
        ("reference_sources.1.source", "issues", 'duplicate reference source "issues"'),
        ("reference_sources.1.kind", "issue", 'duplicate reference provider/kind "gitea/issue"'),
        ("reference_sources.0.source", "a" * 129, "source "),
        ("reference_sources.0.provider", "Git", 'reference source "issues": provider "Git" must match'),
        ("reference_sources.0.kind", "", 'kind "" must match'),
        ("reference_sources.0.display_name", " ", "display_name must have 1 to 100 characters"),
        ("reference_sources.0.kind_label", "x" * 101, "kind_label must have 1 to 100 characters"),
        ("capabilities.auth", False, "auth_providers requires capabilities.auth"),
        ("auth_providers.0.id", "", 'auth provider "" must match'),
        ("auth_providers.0.initiate", "nowhere", 'initiate must be the key of a webhook, not "nowhere"'),
        ("auth_providers", FULL["auth_providers"] * 2, 'duplicate auth provider "gitea"'),
        ("runtime", None, "agent_tools requires a runtime"),
        ("agent_tools", [{**TOOL, "name": f"tool_{number}"} for number in range(17)], "more than 16 entries"),
        ("agent_tools", [TOOL, TOOL], 'duplicate agent tool "note_down"'),
        ("agent_tools.0.name", "Note", 'agent tool "Note": name must match ^[a-z0-9][a-z0-9_]{0,31}$'),
        ("agent_tools.0.name", "a" * 33, "name must match"),
        ("agent_tools.0.description", "", "description must have 1 to 1024 bytes"),
        ("agent_tools.0.description", "é" * 513, "description must have 1 to 1024 bytes"),
        ("agent_tools.0.surfaces", [], "surfaces must name at least one of kanban-task, office-task"),
        ("agent_tools.0.surfaces", ["chat"], 'surface "chat" must be one of kanban-task, office-task'),
        ("agent_tools.0.surfaces", ["kanban-task"] * 2, 'surface "kanban-task" stands twice'),
        ("agent_tools.0.input_schema", None, "input_schema must be an object"),
        ("agent_tools.0.input_schema", {"d": "x" * 64 * 1024}, "input_schema must not be larger than 65536 bytes"),
        ("agent_tools.0.output_schema", {"d": "x" * 64 * 1024}, "output_schema must not be larger than 65536 bytes"),
        ("config_schema", {"type": "array"}, 'config_schema must have type "object"'),
    ],
)
def test_what_breaks_a_rule_is_told_and_nothing_else(path: str, value: Any, says: str) -> None:
    (problem,) = problems(text(changed(FULL, path, value)))
    assert says in problem


@pytest.mark.parametrize("minimum", [None, "", "next", "0.91.0", "0.91.1-rc1", "0", "1.2.3.4"])
def test_messages_and_actions_for_administrators_need_a_host_that_knows_them(minimum: str | None) -> None:
    for api_version in (1, 2):
        told = problems(text({**FULL, "api_version": api_version, "min_kandev_version": minimum}))
        assert told == (
            'api_read resource "messages" requires min_kandev_version >= 0.91.1',
            'action "load": access "admin" requires min_kandev_version >= 0.91.1',
        )


@pytest.mark.parametrize("minimum", [None, "next", "0.91.0"])
def test_other_manifests_need_no_floor(minimum: str | None) -> None:
    without = changed(BROWSER_ONLY, "capabilities.api_read", ["tasks"])
    parse_manifest(text({**without, "min_kandev_version": minimum}))


def test_an_empty_combination_is_told_as_that() -> None:
    manifest = changed(changed(FULL, "ui.keybindings.0.default", " "), "ui.keybindings.0.allow_in_editor", False)
    assert problems(text(manifest)) == ('keybinding "open-notes": default must not be empty',)


def test_a_remote_plugin_is_refused_and_told_what_even_that_would_need() -> None:
    manifest = {**BROWSER_ONLY, "base_url": "http://x", "endpoints": {"events": "/e"}}
    assert problems(text(manifest)) == (
        "endpoints.health is required",
        "endpoints.webhooks is required",
        "a remote plugin (base_url, endpoints) cannot be installed: make it a package with a runtime or a ui",
    )
    whole = {"health": "/h", "events": "/e", "webhooks": "/w"}
    assert len(problems(text({**BROWSER_ONLY, "base_url": "http://x", "endpoints": whole}))) == 1
    assert "base_url is required" in problems(text({**BROWSER_ONLY, "endpoints": whole}))


def test_everything_that_is_wrong_is_told_together() -> None:
    manifest = {"id": "A", "api_version": 9, "ui": {"bundle": "x"}, "webhooks": [{}, {}], "config_schema": {}}
    told = problems(text(manifest))
    assert len(told) == 8
    assert {each.split()[0] for each in told} == {
        "invalid", "unsupported", "version", "ui.bundle", "webhook", "duplicate", "config_schema",
    }  # fmt: skip


def test_long_values_are_cut_where_they_are_quoted() -> None:
    assert all(len(problem) < 300 for problem in problems(text({**FULL, "id": "X" * 500_000})))


# What the file itself must be.


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "must be a mapping"),
        (b"- a", "must be a mapping"),
        (b"just text", "must be a mapping"),
        (b"id: [", "line 1"),
        (b"id: a\nid: b", "the key 'id' stands here twice (line 2, column 1)"),
        (b"ui: {bundle: a, bundle: b}", "the key 'bundle' stands here twice"),
        (b"a: &a [x]\nb: *a", "an alias"),
        (b"a: !!python/object/apply:os.system [id]", "a tag"),
        (b"a: !!binary aGk=", "a tag"),
        (b"? [a]\n: 1", "a key must be text"),
        (b"id: a\n---\nid: b", "document"),
        (b"id: \xff", "invalid start byte"),
        (b"id: a\x00b", "special characters are not allowed"),
        (b'id: "a\\0b"', "a NUL"),
        (b'id: "\\ud800"', "half of a surrogate pair"),
        (b'"\\0": a', "a NUL"),
        (b"a: " + b"[" * 65 + b"]" * 65, "nested deeper than 64 levels"),
        (b"[" * MIB, "nested deeper than 64 levels"),
        (b"a: [" + b"x," * 20_000 + b"]", "more than 20,000 values"),
        (b"# " + b"x" * MIB, "larger than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_plain_yaml_is_refused(data: bytes, says: str) -> None:
    (problem,) = problems(data)
    assert says in problem


def test_a_bomb_of_aliases_is_refused_before_it_is_expanded() -> None:
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 30))
    (problem,) = problems(f"l0: &l0 [x]\n{levels}".encode())
    assert "an alias" in problem


def test_every_field_of_the_wrong_type_is_told() -> None:
    told = problems(
        b"""
        id: [a]
        api_version: "2"
        capabilities: {state: "true", api_read: tasks}
        webhooks: 3
        ui: {pages: [{key: {}}]}
        runtime: binary
        config_schema: []
        actions: [{max_body_bytes: 1.5}]
        """
    )
    assert set(told) == {
        "id must be text",
        "api_version must be a whole number",
        "capabilities.state must be true or false",
        "capabilities.api_read must be a list",
        "webhooks must be a list",
        "ui.pages.0.key must be text",
        "runtime must be a mapping",
        "config_schema must be a mapping",
        "actions.0.max_body_bytes must be a whole number",
    }


def test_an_unquoted_scalar_is_what_its_field_says() -> None:
    manifest = parse_manifest(
        b"""
        id: 2048
        api_version: 2
        version: 1.10
        display_name: no
        description: 2026-12-01
        author: ~
        webhooks:
        min_kandev_version: 0.95
        capabilities: {api_read: [messages], state: true}
        config_schema:
          type: object
          properties:
            a: {enum: [1, 1.5, "1", true, no, 12:30, 0o17, .inf, 1e999, 99999999999999999999], default: null}
        """
    )
    assert (manifest.id, manifest.version, manifest.display_name) == ("2048", "1.10", "no")
    assert (manifest.description, manifest.author, manifest.webhooks) == ("2026-12-01", "", ())
    assert manifest.capabilities.state
    assert manifest.config_schema is not None
    assert manifest.config_schema["properties"]["a"] == {
        "enum": [1, 1.5, "1", True, "no", "12:30", "0o17", ".inf", "1e999", 1e20],
        "default": None,
    }


def test_a_manifest_comes_back_from_json_as_it_was() -> None:
    manifest = parse_manifest(text(FULL))
    assert type(manifest).model_validate_json(manifest.model_dump_json()) == manifest
    assert parse_manifest(manifest.model_dump_json().encode()) == manifest


@pytest.mark.parametrize(
    "document",
    [
        b'a: "\\UFFFFFFFF"',
        b'a: "\\U00110000"',
        b"%YAML 1." + b"9" * 5000 + b"\n---\na: 1",
        b"%YAML " + b"9" * 5000 + b".1\n---\na: 1",
        b"%TAG ! !\n%TAG ! !\n---\na: 1",
        b'a: "\\x',
        b"a: 'b",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"? " * 100_000,
        b"- " * 100_000,
    ],
)
def test_no_document_makes_the_reader_fail(document: bytes) -> None:
    assert problems(document)[0].startswith("the manifest cannot be read: ")


@given(st.text(alphabet=st.sampled_from("ab:-?#&*!%|>'\"\\xUu0F[]{},~@` \t\n\r9.")), st.binary(max_size=40))
def test_a_document_is_read_or_refused(text: str, noise: bytes) -> None:
    for document in (text.encode(), b"id: " + text.encode(), noise, b'"' + text.encode()):
        with pytest.raises(ManifestInvalid):
            parse_manifest(document)


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        ("colour", "red", 'the key "colour" is unknown here and counts for nothing'),
        ("capabilites", {}, 'the key "capabilites" is unknown here and counts for nothing; did you mean capabilities?'),
        ("ui.bundel", "x", 'the key "ui.bundel" is unknown here and counts for nothing; did you mean bundle?'),
        ("webhooks.1.acces", "x", 'the key "webhooks.acces" is unknown here and counts for nothing; did you mean acc'),
        ("actions.0.resource_scop", "x", "did you mean resource_scope?"),
        ("agent_tools.0.annotations.read_only", True, "did you mean read_only_hint?"),
        ("runtime.kind", "x", 'the key "runtime.kind" is unknown here'),
        ("capabilities.api_read", ["mesages"], '"mesages" is nothing that plugins can read; did you mean messages?'),
        ("capabilities.api_read", ["anything"], 'api_read "anything" is nothing that plugins can read'),
        ("x" * 1000, 1, "is unknown here and counts for nothing"),
    ],
)  # fmt: skip
def test_what_nothing_reads_is_noted(path: str, value: Any, note: str) -> None:
    _, noted = read_manifest(text(changed(READ, path, value)))
    assert len(noted) == 1
    assert note in noted[0]
    assert len(noted[0]) < 300


def test_a_manifest_that_is_read_whole_has_no_notes_and_one_that_is_not_has_few() -> None:
    _, noted = read_manifest(text(READ))
    assert noted == ()
    _, noted = read_manifest(text({**READ, **{f"key-{number}": 1 for number in range(MOST_NOTES + 5)}}))
    assert (len(noted), noted[-1]) == (MOST_NOTES + 1, "and 5 more of these")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("id", 5, "id must be text"),
        ("api_version", 1.5, "api_version must be a whole number"),
        ("capabilities", "all", "capabilities must be a mapping"),
        ("capabilities.state", "yes", "capabilities.state must be true or false"),
        ("categories", {"a": 1}, "categories must be a list"),
        ("runtime.executables", [1], "runtime.executables must be a mapping"),
        ("config_schema", [1], "config_schema must be a mapping"),
    ],
)
def test_wrong_types_are_told_in_sentences_of_this_host(path: str, value: Any, says: str) -> None:
    manifest = changed(FULL, path, [5] if path == "id" else value)
    assert problems(text(manifest)) == (says,)
