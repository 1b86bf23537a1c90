"""Decodes a request, runs its handler and encodes the response: all APIs but Produce and Fetch."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from highwater.gateway.core.meters import ApiMeter, RequestMeters
from highwater.gateway.handling.apis import APIS, APIS_WITH_OLD_FORMATS, Api
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import kafka_code
from highwater.gateway.quota.core.request_quota import NO_QUOTA
from highwater.gateway.requests.response_errors import count_errors, shorten_messages
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError, UnknownApiKeyError, UnsupportedVersionError
from highwater.kafka.framing import RequestHeader, encode_response_header, frame
from highwater.kafka.message import Message
from highwater.kafka.registry import ApiCodec, request_codec

THROTTLE_TIME: Final = "throttle_time_ms"
"""What has no such field is not throttled: SaslHandshake, SaslAuthenticate, WriteTxnMarkers and
DescribeQuorum.
"""
UNSUPPORTED_VERSION_FORMAT: Final = 0
"""The version of the answer to an unknown version of ApiVersions (KIP-511)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handler:
    codec: ApiCodec
    handle: Callable[[RequestContext, Any], Awaitable[Any]]
    failure: Callable[[Any, int, int], Any]


def find_api(api_key: int, api_version: int, apis: Mapping[int, Api] = APIS) -> Api | None:
    """The API that answers such a request; None where Kafka closes the connection instead.

    ApiVersions answers unknown versions, too: the answer says which ones it serves.
    """
    api = apis.get(api_key)
    if api is None or api.module is None:
        return None
    return api if api.serves(api_version) or api.key is ApiKey.API_VERSIONS else None


async def dispatch(
    context: RequestContext,
    header: RequestHeader,
    content: bytes | bytearray,
    meters: RequestMeters,
) -> bytes:
    """Answers the request in `content`: the whole reply with size and header.

    `meters` counts the errors in it. Raises only DecodeError, where Kafka closes the connection
    instead of answering: malformed requests, and keys or versions that are not served. Any other
    failure becomes an error code in the API's response.
    """
    body = await _response_body(context, header, content, meters)
    front = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return frame(front, body)


async def _response_body(
    context: RequestContext,
    header: RequestHeader,
    content: bytes | bytearray,
    meters: RequestMeters,
) -> bytes:
    version = header.api_version
    api = find_api(header.api_key, version)
    if api is None and context.backend.settings.old_message_formats:
        api = find_api(header.api_key, version, APIS_WITH_OLD_FORMATS)
    if api is None:
        if APIS.get(header.api_key) is None:
            raise UnknownApiKeyError(header.api_key)
        raise UnsupportedVersionError(header.api_key, version)
    handler = handler_of(api)
    meter = meters.apis[api.key]
    if not api.serves(version):
        refusal = handler.failure(None, version, ErrorCode.UNSUPPORTED_VERSION)
        count_errors(meter, refusal)
        return handler.codec.encode_response(refusal, UNSUPPORTED_VERSION_FORMAT)
    if api.raw:
        return await _run_raw(context, handler, memoryview(content)[header.body_pos :], meter)
    request = handler.codec.decode_request(content, header.body_pos, version)
    return await _run(context, handler, request, meter)


async def _run(
    context: RequestContext, handler: _Handler, request: Message, meter: ApiMeter
) -> bytes:
    version = context.api_version
    try:
        response = await handler.handle(context, request)
        shorten_messages(response)
        _throttle(context, response)
        encoded = handler.codec.encode_response(response, version)
    except Exception as error:  # noqa: BLE001 - answered with an error code, and logged.
        response = handler.failure(request, version, _code_of(context, error))
        _throttle(context, response)
        encoded = handler.codec.encode_response(response, version)
    count_errors(meter, response)
    return encoded


async def _run_raw(
    context: RequestContext, handler: _Handler, body: memoryview, meter: ApiMeter
) -> bytes:
    version = context.api_version
    try:
        encoded: bytes = await handler.handle(context, body)
    except DecodeError:
        raise
    except Exception as error:  # noqa: BLE001 - as in `_run`.
        request = handler.codec.decode_request(body, 0, version)
        failure = handler.failure(request, version, _code_of(context, error))
        encoded = handler.codec.encode_response(failure, version)
    response = handler.codec.decode_response(encoded, 0, version)
    count_errors(meter, response)
    return (
        handler.codec.encode_response(response, version)
        if _throttle(context, response)
        else encoded
    )


def _throttle(context: RequestContext, response: Any) -> bool:
    """Tells the client for how long it is throttled, if it is; the longest time counts."""
    if context.quota is NO_QUOTA or THROTTLE_TIME not in response.__slots__:
        return False
    throttle_ms = context.quota.ended()
    if throttle_ms <= response.throttle_time_ms:
        return False
    response.throttle_time_ms = throttle_ms
    return True


def _code_of(context: RequestContext, error: Exception) -> ErrorCode:
    """The code for an error; unexpected errors are logged with their traceback."""
    code = kafka_code(error)
    unforeseen = code is ErrorCode.UNKNOWN_SERVER_ERROR
    context.warn(
        "request_failed",
        kind="unforeseen" if unforeseen else "",
        api_key=context.api_key,
        api_version=context.api_version,
        error_code=int(code),
        error=repr(error),
        exc_info=error if unforeseen else None,
    )
    return code


@cache
def handler_of(api: Api) -> _Handler:
    """Loads a handler and its codec; at most one entry for each API. Raises OSError."""
    module = import_module(f"highwater.gateway.handlers.{api.module}")
    return _Handler(codec=request_codec(api.key), handle=module.handle, failure=module.failure)
