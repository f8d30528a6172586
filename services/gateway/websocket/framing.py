"""WebSocket frames as bytes (RFC 6455, section 5): those of a server are never masked, nor are these ever split."""

from struct import Struct

_TEXT, _CLOSE = 0x81, 0x88
_MEDIUM, _LONG = 126, 127
_CLOSE_HEADER = Struct("!BBH")
_SHORT_HEADER, _MEDIUM_HEADER, _LONG_HEADER = Struct("!BB"), Struct("!BBH"), Struct("!BBQ")


def framed(text: bytes) -> bytes:
    """A text as a frame."""
    length = len(text)
    if length < _MEDIUM:
        return _SHORT_HEADER.pack(_TEXT, length) + text
    if length < 1 << 16:
        return _MEDIUM_HEADER.pack(_TEXT, _MEDIUM, length) + text
    return _LONG_HEADER.pack(_TEXT, _LONG, length) + text


def text_of(frame: bytes | bytearray) -> bytes:
    """A copy of the text in a frame that `framed` has made."""
    headers = {_MEDIUM: _MEDIUM_HEADER, _LONG: _LONG_HEADER}
    return bytes(memoryview(frame)[headers.get(frame[1], _SHORT_HEADER).size :])


def closing_frame(code: int, reason: bytes) -> bytes:
    """The frame that closes a WebSocket (section 5.5.1). `reason`: at most 123 bytes."""
    return _CLOSE_HEADER.pack(_CLOSE, 2 + len(reason), code) + reason
