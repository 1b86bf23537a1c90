"""Topic names that may not stand beside one another (Kafka's `Topic.hasCollisionChars`)."""


def collision_key(name: str) -> str:
    """Names with the same key collide: metrics turn '.' into '_'."""
    return name.replace(".", "_")
