"""Topic names that must not exist side by side (Kafka's `Topic.hasCollisionChars`)."""


def collision_key(name: str) -> str:
    """Names with the same key collide: metrics turn '.' into '_'."""
    return name.replace(".", "_")
