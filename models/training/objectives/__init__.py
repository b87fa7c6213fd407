"""The objectives of retrieval training, by name, each with the paper that it comes from.

A new objective is one file here and one line in OBJECTIVES; the configuration of a run gives its name and
settings.
"""

from collections.abc import Mapping
from types import MappingProxyType

_PACKAGE = "models.training.objectives"

# Each is built with its settings as keywords and called with an EncodedBatch (batch.RetrievalObjective).
OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "in-batch": f"{_PACKAGE}.in_batch:InBatch",  # Akin's own: the ranking distances, both ways
        "specter": f"{_PACKAGE}.specter:DocumentTriplet",  # SPECTER; also SPECTER-CoCite, CoSentBert
        "ts": f"{_PACKAGE}.aspire_ts:TextualSupervision",  # ASPIRE: tsAspire
        "ot": f"{_PACKAGE}.aspire_ot:TransportTriplet",  # ASPIRE: otAspire
        "ts-ot": f"{_PACKAGE}.aspire_ts_ot:SupervisedTransport",  # ASPIRE: ts+otAspire
        "abs": f"{_PACKAGE}.aspire_ts:AbstractSupervision",  # ASPIRE: AbsAspire
        "max": f"{_PACKAGE}.aspire_max:MaxTriplet",  # ASPIRE: MaxAspire
        "attention": f"{_PACKAGE}.aspire_attention:AttentionTriplet",  # ASPIRE: AttAspire
        "mnrl": f"{_PACKAGE}.mnrl:MultipleNegatives",  # Zeta Alpha
    }
)
