"""UpdateFeatures v0-2: raises or lowers the finalized levels of features (KIP-584, KIP-778).

Behaviour
- Clients of another instance than the default one: CLUSTER_AUTHORIZATION_FAILED (see `operates`).
- Every feature is finalized at one level (`handling.features`): an update to that level succeeds and
  changes nothing; any other is INVALID_UPDATE_VERSION, in Kafka's words if it is not supported, as is
  an unknown feature.
- One update that is refused refuses all: the first error is at the top, without results.
- Needs ALTER on the cluster; otherwise CLUSTER_AUTHORIZATION_FAILED.

Version notes
- v0: downgrades are allowed or not. v1: upgrade types, validation without a change. v2: no results
  for single features.

Deviations
- transaction.version cannot be lowered: INVALID_UPDATE_VERSION.
"""

from typing import Final

from highwater.gateway.handling.authorization import operates
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.features import LEVELS, LOWEST
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import update_features as codec
from highwater.model.acl_operations import AclOperation

UPGRADE: Final = 1
UPGRADE_TYPES: Final = (UPGRADE, 2, 3)
"""Upgrade, safe downgrade, unsafe downgrade (Kafka: `FeatureUpdate.UpgradeType`)."""
RESULTS_UNTIL: Final = 1


async def handle(
    context: RequestContext, request: codec.UpdateFeaturesRequest
) -> codec.UpdateFeaturesResponse:
    """Judges the updates; none has to be made."""
    version = context.api_version
    if not operates(context, AclOperation.ALTER):
        return failure(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    for update in request.feature_updates:
        why = _refusal(update)
        if why is not None:
            return codec.UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=(
                    "The update failed for all features since the following feature had an error: "
                    f"Invalid update version {update.max_version_level} for feature "
                    f"{update.feature}. {why}"
                ),
            )
    names = [update.feature for update in request.feature_updates]
    results = [codec.UpdateFeaturesResponseUpdatableFeatureResult(name) for name in names]
    return codec.UpdateFeaturesResponse(
        error_message=None, results=results if version <= RESULTS_UNTIL else []
    )


def failure(
    _request: codec.UpdateFeaturesRequest, _version: int, code: int
) -> codec.UpdateFeaturesResponse:
    """The code and its message at the top."""
    return codec.UpdateFeaturesResponse(error_code=code, error_message=ErrorCode(code).message)


def _refusal(update: codec.UpdateFeaturesRequestFeatureUpdateKey) -> str | None:
    """In the words and the order of Kafka's `FeatureControlManager.updateFeature`."""
    level = LEVELS.get(update.feature)
    wanted = update.max_version_level
    if update.upgrade_type not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if level is None:
        return "The cluster does not support this feature."
    if not LOWEST[update.feature] <= wanted <= level:
        return f"The cluster only supports versions {LOWEST[update.feature]}-{level}"
    if wanted != level:
        return f"The level cannot be lowered from {level} in this version of Highwater."
    return None
