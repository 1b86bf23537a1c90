"""ApiVersions v0-4: the APIs and versions that this broker advertises.

Behaviour
- Answered always, also before authentication.
- v3+: the client names its software; a malformed name or version is INVALID_REQUEST (KIP-511).
- A version that is not served gets UNSUPPORTED_VERSION in the format of version 0, with the range of
  ApiVersions itself, so that the client can ask again (KIP-511); `dispatch` chooses the format.

Version notes
- v1: throttle time. v3: flexible, except for the response header; features, without those whose
  smallest level is 0, which clients before KAFKA-17011 do not take. v4: all features.

Deviations
- Only the features of `handling.features` are told. Of those that clients act on, transaction.version is at
  level 2, group.version at level 1, and share.version is missing.
"""

import re
from typing import Final

from highwater.gateway.handling.apis import APIS, APIS_WITH_OLD_FORMATS, Api
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.features import EPOCH, LEVELS, LOWEST
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    ApiVersionsResponseFinalizedFeatureKey,
    ApiVersionsResponseSupportedFeatureKey,
)

SOFTWARE_VERSIONS_FROM: Final = 3
LEVEL_0_FROM: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """All rows of the table of APIs that the settings choose."""
    version = context.api_version
    if version >= SOFTWARE_VERSIONS_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return failure(request, version, ErrorCode.INVALID_REQUEST)
    apis = APIS_WITH_OLD_FORMATS if context.backend.settings.old_message_formats else APIS
    return ApiVersionsResponse(
        api_keys=[_range(api) for api in apis.values()],
        supported_features=[
            ApiVersionsResponseSupportedFeatureKey(name, LOWEST[name], level)
            for name, level in LEVELS.items()
            if LOWEST[name] or version >= LEVEL_0_FROM
        ],
        finalized_features_epoch=EPOCH,
        # As in Kafka, features of level 0 are not among these.
        finalized_features=[
            ApiVersionsResponseFinalizedFeatureKey(name, level, level)
            for name, level in LEVELS.items()
            if level
        ],
    )


def failure(_request: object, _version: int, code: int) -> ApiVersionsResponse:
    """The code; for an unsupported version also the versions to use instead."""
    keys = [_range(APIS[ApiKey.API_VERSIONS])] if code == ErrorCode.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=code, api_keys=keys)


def _range(api: Api) -> ApiVersionsResponseApiVersion:
    return ApiVersionsResponseApiVersion(api.key, api.min_version, api.max_version)
