"""What a plugin's manifest can declare, as `manifest.yaml` says it. The rules that bind it are in `rules`.

Every field has a default: a manifest that leaves out what it must say breaks a rule, and is told so together with
everything else that is wrong with it.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from services.gateway.plugins.plain_yaml import Scalar, plain
from shared.contracts.base import Contract


def _value(content: object) -> object:
    return content.value if isinstance(content, Scalar) else content


Text = Annotated[str, Field(strict=True)]
Whole = Annotated[int, Field(strict=True), BeforeValidator(_value)]
Flag = Annotated[bool, Field(strict=True), BeforeValidator(_value)]
# Any: a JSON schema is whatever its author wrote; `rules` judges it.
Schema = Annotated[dict[str, Any], BeforeValidator(plain)]


class Declaration(Contract):
    """A mapping of the manifest. A key without a value counts as left out, as in kandev."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, content: object) -> object:
        if not isinstance(content, dict):
            return content
        return {key: value for key, value in content.items() if _value(value) is not None}


class Capabilities(Declaration):
    """What the plugin may use of its host."""

    events: tuple[Text, ...] = ()
    api_read: tuple[Text, ...] = ()
    api_write: tuple[Text, ...] = ()
    state: Flag = False
    secrets: Flag = False
    agent_invoke: Flag = False
    agent_conversation: Flag = False
    auth: Flag = False
    user_state: Flag = False


class Webhook(Declaration):
    """A request from outside. `max_body_bytes` in bytes."""

    key: Text = ""
    description: Text = ""
    method: Text = ""
    access: Text = "public"
    max_body_bytes: Whole | None = None


class Action(Declaration):
    """Something that the plugin's own user interface may ask of it. `max_body_bytes` in bytes."""

    key: Text = ""
    scope: Annotated[Text, Field(validation_alias=AliasChoices("scope", "resource_scope"))] = ""
    access: Text = "authenticated"
    max_body_bytes: Whole = 0


class ReferenceSource(Declaration):
    """A kind of thing that prompts can refer to, by the names that people read."""

    source: Text = ""
    provider: Text = ""
    kind: Text = ""
    display_name: Text = ""
    kind_label: Text = ""
    order: Whole = 0


class AuthProvider(Declaration):
    """A way to sign in; `initiate` is the key of the webhook that begins it."""

    id: Text = ""
    display_name: Text = ""
    initiate: Text = ""


class ToolAnnotations(Declaration):
    """What an agent may assume of a tool."""

    read_only_hint: Flag = False
    destructive_hint: Flag = False
    idempotent_hint: Flag = False
    open_world_hint: Flag = False


class AgentTool(Declaration):
    """A tool that agents may call."""

    name: Text = ""
    description: Text = ""
    surfaces: tuple[Text, ...] = ()
    input_schema: Schema | None = None
    output_schema: Schema | None = None
    annotations: ToolAnnotations = ToolAnnotations()


class Page(Declaration):
    """A page of the plugin's user interface."""

    key: Text = ""
    title: Text = ""
    path: Text = ""
    surface: Text = ""


class Keybinding(Declaration):
    """A key combination, `default`, until the user chooses another."""

    id: Text = ""
    default: Text = ""
    description: Text = ""
    allow_in_editor: Flag = False


class UserInterface(Declaration):
    """What the browser loads. Paths begin with `/`, which is the root of the package."""

    pages: tuple[Page, ...] = ()
    bundle: Text = ""
    styles: tuple[Text, ...] = ()
    keybindings: tuple[Keybinding, ...] = ()


class Runtime(Declaration):
    """The plugin's own process: executables by platform (`linux-amd64`). This host runs none."""

    type: Text = ""
    executables: dict[str, Text] = {}


class Endpoints(Declaration):
    """Where a remote plugin, of the time before packages, answers."""

    health: Text = ""
    events: Text = ""
    webhooks: Text = ""


class Manifest(Declaration):
    """A plugin's description of itself. `runtime` is `None` for a plugin that lives in the browser alone."""

    id: Text = ""
    api_version: Whole = 0
    version: Text = ""
    display_name: Text = ""
    description: Text = ""
    author: Text = ""
    categories: tuple[Text, ...] = ()
    icon: Text = ""
    repo_url: Annotated[Text, AfterValidator(str.strip)] = ""
    min_kandev_version: Text = ""
    capabilities: Capabilities = Capabilities()
    webhooks: tuple[Webhook, ...] = ()
    actions: tuple[Action, ...] = ()
    repository_providers: tuple[Text, ...] = ()
    reference_sources: tuple[ReferenceSource, ...] = ()
    auth_providers: tuple[AuthProvider, ...] = ()
    agent_tools: tuple[AgentTool, ...] = ()
    config_schema: Schema | None = None
    ui: UserInterface = UserInterface()
    runtime: Runtime | None = None
    base_url: Text = ""
    endpoints: Endpoints = Endpoints()
