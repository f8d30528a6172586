"""Log lines of every process: one format, and nothing in them that a message, a token or a password could hide in."""

import logging
import sys
import sysconfig
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Literal, TextIO

import orjson
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

from shared.settings import Settings
from shared.times import format_time

MALFORMED_SECONDS = 60.0
"""Pause between two lines about malformed requests."""

_NAMES: ContextVar[Mapping[str, str]] = ContextVar("names", default=MappingProxyType({}))

_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))

_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class logged_with:  # noqa: N801 - read as a statement: `with logged_with(request=...)`
    """Names what is being done, as with the id of its request, in every line that is logged within the block, and by
    tasks that begin in it. No name may be a client's own words.

    Small, since every connection is within one: a generator would be ten times as large.
    """

    __slots__ = ("_names", "_token")

    def __init__(self, **names: str) -> None:
        self._names = names

    def __enter__(self) -> None:
        self._names = {**_NAMES.get(), **self._names}
        self._token = _NAMES.set(self._names)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _NAMES.reset(self._token)


def name_logged(what: str) -> str | None:
    """How that is named at present; `None`: not at all."""
    return _NAMES.get().get(what)


class _Discreet(logging.Filter):
    """Keeps exception values out of log lines.

    Database errors quote rows ("Failing row contains (...)"), validation errors quote input. Type and place say enough
    to find the cause.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = "; ".join(_described(error) for error in _parts(record.exc_info[1])[:_PARTS])
            record.exc_info = None
            if record.name == "asyncio":
                # Its further lines show the task, and in that the exception's value.
                record.msg, record.args = record.getMessage().partition("\n")[0], ()
            elif record.pathname.startswith(_LIBRARIES):
                # A library's message about an error may be the error's own text.
                record.msg, record.args = f"an error in {record.module}", ()
        record.msg = _discreet(record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(_discreet(arg) for arg in record.args)
        elif isinstance(record.args, Mapping):
            record.args = {name: _discreet(arg) for name, arg in record.args.items()}
        return True


_PARTS = 3
"""Most errors of a group that a line tells."""


def _parts(error: BaseException) -> list[BaseException]:
    """The errors that a group is made of; itself, if it is none."""
    if isinstance(error, BaseExceptionGroup):
        return [part for each in error.exceptions for part in _parts(each)]
    return [error]


def _described(error: BaseException) -> str:
    """Type and place."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f"{type(error).__name__} at " + " < ".join(reversed(frames[-6:]))


class _Malformed(logging.Filter):
    """One warning a minute for requests that are no HTTP: anyone can send them, and as many as they like."""

    def __init__(self) -> None:
        super().__init__()
        self._told_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or not isinstance(record.exc_info[1], HttpProcessingError | RequestPayloadError):
            return True
        if time.monotonic() - self._told_at < MALFORMED_SECONDS:
            return False
        self._told_at = time.monotonic()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = "requests came that are no HTTP; they were refused", ()
        record.exc_info = None
        return True


def _discreet(value: object) -> object:
    return type(value).__name__ if isinstance(value, BaseException) else value


class _Json(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
            **_NAMES.get(),
        }
        line.update({name: _discreet(value) for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_text:
            line["error"] = record.exc_text
        return orjson.dumps(line, default=str).decode()


class _Text(logging.Formatter):
    """One line for a record, its error included: what takes lines apart must not see an error without its cause."""

    def format(self, record: logging.LogRecord) -> str:
        error, record.exc_text = record.exc_text, None
        line = super().format(record)
        record.exc_text = error
        names = "".join(f" {what}={name}" for what, name in _NAMES.get().items())
        return f"{line} ({error}){names}" if error else line + names


def handler_to(stream: TextIO, log_format: Literal["text", "json"], service: str) -> logging.Handler:
    """What writes every line as it should be."""
    handler = logging.StreamHandler(stream)
    if log_format == "json":
        handler.setFormatter(_Json(service))
    else:
        handler.setFormatter(_Text("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    handler.addFilter(_Malformed())
    handler.addFilter(_Discreet())
    return handler


def configure_logging(settings: Settings, service: str) -> None:
    """Sends every log line of this process to standard error, as text or JSON; the error that ends it, too."""
    handler = handler_to(sys.stderr, settings.log_format, service)
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in ("asyncio", "aiohttp.access", "faststream"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
    # Its pools warn of every connection that they fail to restore; whoever uses them tells that the database is away.
    logging.getLogger("asyncpg").setLevel(max(logging.ERROR, logging.getLevelName(settings.log_level)))
    sys.excepthook = _log_the_end


def _log_the_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What Python does with an error that nobody caught, without the values in it."""
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(__name__).critical("the process ends by an error", exc_info=(kind, error, trace))
