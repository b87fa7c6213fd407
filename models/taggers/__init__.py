"""The facet taggers: one file per kind, named in ``models.facets.TAGGERS``."""
