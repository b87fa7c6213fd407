"""``akin evaluate``: what systems find, measured and shown."""
