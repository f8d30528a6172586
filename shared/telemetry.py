"""Log lines of every process: one format, and nothing in them that a message, a token or a password could hide in."""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import orjson

from shared.settings import Settings
from shared.times import format_time

_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class _Discreet(logging.Filter):
    """Keeps exception values out of log lines.

    Database errors quote rows ("Failing row contains (...)"), validation errors quote input. Type and place say enough
    to find the cause.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            frames = []
            while trace is not None:
                code = trace.tb_frame.f_code
                frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
                trace = trace.tb_next
            record.exc_text = f"{kind.__name__} at " + " < ".join(reversed(frames[-6:]))
            record.exc_info = None
            if record.name == "asyncio":
                # Its further lines show the task, and in that the exception's value.
                record.msg, record.args = record.getMessage().partition("\n")[0], ()
        record.msg = _discreet(record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(_discreet(arg) for arg in record.args)
        elif isinstance(record.args, Mapping):
            record.args = {name: _discreet(arg) for name, arg in record.args.items()}
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
        }
        line.update({name: _discreet(value) for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_text:
            line["error"] = record.exc_text
        return orjson.dumps(line, default=str).decode()


def configure_logging(settings: Settings, service: str) -> None:
    """Sends every log line of this process to standard error, as text or JSON."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(_Json(service))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    handler.addFilter(_Discreet())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in ("asyncio", "aiohttp.access", "faststream"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
