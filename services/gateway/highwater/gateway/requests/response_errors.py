"""Finds what a response of any API says of errors, at any depth: codes are counted, messages cut.

Produce and Fetch count their own. Each generated class is examined once: which of its fields hold
an error code, or messages that may hold one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_type_hints

from highwater.gateway.core.meters import ApiMeter
from highwater.kafka.error_messages import shortened
from highwater.kafka.message import Message

ERROR_FIELDS = ("error_code", "partition_error_code")
"""The second is what AddPartitionsToTxn says of a partition."""


ERROR_TEXT = "error_message"
"""It stands beside an error code, wherever there is one."""


class _Fields(NamedTuple):
    codes: tuple[str, ...]
    """The fields of a message class that are error codes."""
    nested: tuple[str, ...]
    """The fields of a message class in which error codes can be."""


def count_errors(meter: ApiMeter, response: Message) -> None:
    """Counts each code that is not 0: the response's own and those of its elements."""
    for message in _with_errors(response):
        for name in _fields_of(type(message)).codes:
            code = getattr(message, name)
            if code:
                meter.failed(int(code))


def shorten_messages(response: Message) -> None:
    """Cuts error messages that quote so much of their request that no client could read them."""
    for message in _with_errors(response):
        if ERROR_TEXT in message.__slots__:
            text = getattr(message, ERROR_TEXT)
            if text is not None:
                setattr(message, ERROR_TEXT, shortened(text))


def _with_errors(response: Message) -> Iterator[Message]:
    """The response and the messages in it that may tell errors."""
    stack = [response]
    while stack:
        message = stack.pop()
        yield message
        for name in _fields_of(type(message)).nested:
            value = getattr(message, name)
            if isinstance(value, Message):
                stack.append(value)
            elif value:
                stack.extend(value)


def _fields_of(kind: type[Message]) -> _Fields:
    known = _KNOWN.get(kind.__qualname__)
    if known is None:
        known = _KNOWN[kind.__qualname__] = _look_at(kind)
    return known


def _look_at(kind: type[Message]) -> _Fields:
    hints = get_type_hints(kind.__init__)
    nested = (
        name
        for name in kind.__slots__
        if any(_tells_errors(one) for one in _messages_in(hints.get(name)))
    )
    codes = tuple(name for name in ERROR_FIELDS if name in kind.__slots__)
    return _Fields(codes, tuple(nested))


def _tells_errors(kind: type[Message]) -> bool:
    codes, nested = _fields_of(kind)
    return bool(codes or nested)


def _messages_in(hint: Any) -> Iterator[type[Message]]:
    """The message classes that a field's type names."""
    if isinstance(hint, type) and issubclass(hint, Message):
        yield hint
    for argument in get_args(hint):
        yield from _messages_in(argument)


# By class name, since generated classes are not hashable; at most one entry for each of them.
_KNOWN: dict[str, _Fields] = {}
