"""The encoders: one file per kind, named in ``models.encoder.ENCODERS``."""
