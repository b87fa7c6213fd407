"""Collections in this process, without a service: ``akin.index`` and ``akin.open``."""
