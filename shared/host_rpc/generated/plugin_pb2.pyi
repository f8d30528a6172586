from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Page(_message.Message):
    __slots__ = ("limit", "cursor")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class PageInfo(_message.Message):
    __slots__ = ("next_cursor", "has_more")
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    next_cursor: str
    has_more: bool
    def __init__(self, next_cursor: _Optional[str] = ..., has_more: _Optional[bool] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("id", "session_id", "task_id", "turn_id", "author_type", "content", "type", "created_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    session_id: str
    task_id: str
    turn_id: str
    author_type: str
    content: str
    type: str
    created_at: str
    def __init__(self, id: _Optional[str] = ..., session_id: _Optional[str] = ..., task_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., author_type: _Optional[str] = ..., content: _Optional[str] = ..., type: _Optional[str] = ..., created_at: _Optional[str] = ...) -> None: ...

class MessageFilter(_message.Message):
    __slots__ = ("session_ids", "task_ids", "since", "until", "types")
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    since: str
    until: str
    types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_ids: _Optional[_Iterable[str]] = ..., task_ids: _Optional[_Iterable[str]] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMessagesRequest(_message.Message):
    __slots__ = ("filter", "page")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    filter: MessageFilter
    page: Page
    def __init__(self, filter: _Optional[_Union[MessageFilter, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ListMessagesResponse(_message.Message):
    __slots__ = ("messages", "page_info")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PAGE_INFO_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    page_info: PageInfo
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., page_info: _Optional[_Union[PageInfo, _Mapping]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("id", "task_id", "agent_profile_id", "agent_display_name", "model", "acp_session_id", "state", "started_at", "ended_at", "agent_profile_name")
    ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_PROFILE_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ACP_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_PROFILE_NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    task_id: str
    agent_profile_id: str
    agent_display_name: str
    model: str
    acp_session_id: str
    state: str
    started_at: str
    ended_at: str
    agent_profile_name: str
    def __init__(self, id: _Optional[str] = ..., task_id: _Optional[str] = ..., agent_profile_id: _Optional[str] = ..., agent_display_name: _Optional[str] = ..., model: _Optional[str] = ..., acp_session_id: _Optional[str] = ..., state: _Optional[str] = ..., started_at: _Optional[str] = ..., ended_at: _Optional[str] = ..., agent_profile_name: _Optional[str] = ...) -> None: ...

class SessionFilter(_message.Message):
    __slots__ = ("task_ids", "workspace_ids", "states")
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    workspace_ids: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_ids: _Optional[_Iterable[str]] = ..., workspace_ids: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("filter", "page")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    filter: SessionFilter
    page: Page
    def __init__(self, filter: _Optional[_Union[SessionFilter, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "page_info")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PAGE_INFO_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    page_info: PageInfo
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., page_info: _Optional[_Union[PageInfo, _Mapping]] = ...) -> None: ...

class TaskRepository(_message.Message):
    __slots__ = ("id", "repository_id", "base_branch", "position", "checkout_branch")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_BRANCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CHECKOUT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    repository_id: str
    base_branch: str
    position: int
    checkout_branch: str
    def __init__(self, id: _Optional[str] = ..., repository_id: _Optional[str] = ..., base_branch: _Optional[str] = ..., position: _Optional[int] = ..., checkout_branch: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "workspace_id", "workflow_id", "title", "description", "state", "priority", "created_by", "created_at", "updated_at", "started_at", "completed_at", "parent_id", "identifier", "is_ephemeral", "repositories", "metadata")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    IS_EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    REPOSITORIES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    workspace_id: str
    workflow_id: str
    title: str
    description: str
    state: str
    priority: str
    created_by: str
    created_at: str
    updated_at: str
    started_at: str
    completed_at: str
    parent_id: str
    identifier: str
    is_ephemeral: bool
    repositories: _containers.RepeatedCompositeFieldContainer[TaskRepository]
    metadata: _struct_pb2.Struct
    def __init__(self, id: _Optional[str] = ..., workspace_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[str] = ..., priority: _Optional[str] = ..., created_by: _Optional[str] = ..., created_at: _Optional[str] = ..., updated_at: _Optional[str] = ..., started_at: _Optional[str] = ..., completed_at: _Optional[str] = ..., parent_id: _Optional[str] = ..., identifier: _Optional[str] = ..., is_ephemeral: _Optional[bool] = ..., repositories: _Optional[_Iterable[_Union[TaskRepository, _Mapping]]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class TaskFilter(_message.Message):
    __slots__ = ("workspace_ids", "workflow_ids", "states", "parent_id", "include_ephemeral")
    WORKSPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_IDS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    workspace_ids: _containers.RepeatedScalarFieldContainer[str]
    workflow_ids: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[str]
    parent_id: str
    include_ephemeral: bool
    def __init__(self, workspace_ids: _Optional[_Iterable[str]] = ..., workflow_ids: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[str]] = ..., parent_id: _Optional[str] = ..., include_ephemeral: _Optional[bool] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("filter", "page")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    filter: TaskFilter
    page: Page
    def __init__(self, filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "page_info")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PAGE_INFO_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    page_info: PageInfo
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., page_info: _Optional[_Union[PageInfo, _Mapping]] = ...) -> None: ...

class UpdateTaskRequest(_message.Message):
    __slots__ = ("id", "title", "description", "state", "workflow_step_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    description: str
    state: str
    workflow_step_id: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[str] = ..., workflow_step_id: _Optional[str] = ...) -> None: ...

class UpdateTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class Workflow(_message.Message):
    __slots__ = ("id", "workspace_id", "name", "description", "sort_order", "created_at", "updated_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    workspace_id: str
    name: str
    description: str
    sort_order: int
    created_at: str
    updated_at: str
    def __init__(self, id: _Optional[str] = ..., workspace_id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., sort_order: _Optional[int] = ..., created_at: _Optional[str] = ..., updated_at: _Optional[str] = ...) -> None: ...

class ListWorkflowsRequest(_message.Message):
    __slots__ = ("workspace_id", "page")
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    workspace_id: str
    page: Page
    def __init__(self, workspace_id: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ListWorkflowsResponse(_message.Message):
    __slots__ = ("workflows", "page_info")
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    PAGE_INFO_FIELD_NUMBER: _ClassVar[int]
    workflows: _containers.RepeatedCompositeFieldContainer[Workflow]
    page_info: PageInfo
    def __init__(self, workflows: _Optional[_Iterable[_Union[Workflow, _Mapping]]] = ..., page_info: _Optional[_Union[PageInfo, _Mapping]] = ...) -> None: ...

class WorkflowStep(_message.Message):
    __slots__ = ("id", "workflow_id", "name", "position", "stage_type")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    STAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    workflow_id: str
    name: str
    position: int
    stage_type: str
    def __init__(self, id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., name: _Optional[str] = ..., position: _Optional[int] = ..., stage_type: _Optional[str] = ...) -> None: ...

class ListWorkflowStepsRequest(_message.Message):
    __slots__ = ("workflow_id",)
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    def __init__(self, workflow_id: _Optional[str] = ...) -> None: ...

class ListWorkflowStepsResponse(_message.Message):
    __slots__ = ("steps",)
    STEPS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[WorkflowStep]
    def __init__(self, steps: _Optional[_Iterable[_Union[WorkflowStep, _Mapping]]] = ...) -> None: ...

class Repository(_message.Message):
    __slots__ = ("id", "workspace_id", "name", "default_branch", "source_type", "provider_id", "provider_repository_id", "provider_host", "owner_or_project", "provider_name", "remote_url", "provider_scope")
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REPOSITORY_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_HOST_FIELD_NUMBER: _ClassVar[int]
    OWNER_OR_PROJECT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_NAME_FIELD_NUMBER: _ClassVar[int]
    REMOTE_URL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_SCOPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    workspace_id: str
    name: str
    default_branch: str
    source_type: str
    provider_id: str
    provider_repository_id: str
    provider_host: str
    owner_or_project: str
    provider_name: str
    remote_url: str
    provider_scope: str
    def __init__(self, id: _Optional[str] = ..., workspace_id: _Optional[str] = ..., name: _Optional[str] = ..., default_branch: _Optional[str] = ..., source_type: _Optional[str] = ..., provider_id: _Optional[str] = ..., provider_repository_id: _Optional[str] = ..., provider_host: _Optional[str] = ..., owner_or_project: _Optional[str] = ..., provider_name: _Optional[str] = ..., remote_url: _Optional[str] = ..., provider_scope: _Optional[str] = ...) -> None: ...

class ListRepositoriesRequest(_message.Message):
    __slots__ = ("workspace_id", "page")
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    workspace_id: str
    page: Page
    def __init__(self, workspace_id: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ListRepositoriesResponse(_message.Message):
    __slots__ = ("repositories", "page_info")
    REPOSITORIES_FIELD_NUMBER: _ClassVar[int]
    PAGE_INFO_FIELD_NUMBER: _ClassVar[int]
    repositories: _containers.RepeatedCompositeFieldContainer[Repository]
    page_info: PageInfo
    def __init__(self, repositories: _Optional[_Iterable[_Union[Repository, _Mapping]]] = ..., page_info: _Optional[_Union[PageInfo, _Mapping]] = ...) -> None: ...

class SendMessageRequest(_message.Message):
    __slots__ = ("task_id", "session_id", "text")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    session_id: str
    text: str
    def __init__(self, task_id: _Optional[str] = ..., session_id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class SendMessageResponse(_message.Message):
    __slots__ = ("session_id", "status")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    status: str
    def __init__(self, session_id: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...
