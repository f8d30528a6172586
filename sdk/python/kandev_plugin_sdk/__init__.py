"""For plugins' own processes: what their host lets them read."""

from kandev_plugin_sdk.data import Message, MessageFilter, Page, PageInfo
from kandev_plugin_sdk.errors import (
    DeadlineExceeded,
    HostError,
    InvalidArgument,
    NotOffered,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
)
from kandev_plugin_sdk.host import Host
from kandev_plugin_sdk.messages import MessageReader

__all__ = [
    "DeadlineExceeded",
    "Host",
    "HostError",
    "InvalidArgument",
    "Message",
    "MessageFilter",
    "MessageReader",
    "NotOffered",
    "Page",
    "PageInfo",
    "PermissionDenied",
    "Unauthenticated",
    "Unavailable",
]
