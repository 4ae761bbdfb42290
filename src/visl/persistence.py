"""A fitted estimator as a plain document beside its network, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from visl.data.plain import plain
from visl.model import VislModel
from visl.settings import kept_seed

if TYPE_CHECKING:
    from visl.estimator import VISL

SETTINGS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "latent_dim",
    "message_steps",
    "n_draws",
    "n_members",
    "edge_threshold",
    "round_integers",
    "verbose",
)
LEARNED = ("seed_", "columns_", "set_aside_", "n_rows_", "notices_", "fingerprint_", "order_fingerprint_")


def to_document(estimator: VISL) -> dict[str, Any]:
    """The constructor's settings, with files and tables resolved, and what was learned besides the network."""
    knowledge = (estimator.edge_prior, estimator.forbidden_edges, estimator.required_edges)
    kinds = estimator.kinds
    return {
        "settings": {"preset": estimator.preset_, **{name: plain(getattr(estimator, name)) for name in SETTINGS}},
        "random_state": kept_seed(estimator.random_state),
        "kinds": [[plain(name), plain(kind)] for name, kind in kinds.items()] if isinstance(kinds, Mapping) else kinds,
        "has_prior": any(given is not None for given in knowledge),
        "learned": {name: getattr(estimator, name) for name in LEARNED},
        "named": hasattr(estimator, "feature_names_in_"),
        "history": estimator.history_.to_dict("records") if hasattr(estimator, "history_") else [],
    }


def from_document(estimator_class: type[VISL], model: VislModel, document: dict[str, Any], device: str) -> VISL:
    schema, kinds = model.schema, document["kinds"]
    estimator = estimator_class(**document["settings"], random_state=document["random_state"], device=device)
    estimator.kinds = dict(kinds) if isinstance(kinds, list) else kinds
    estimator.groups = {column.name: column.group for column in schema.columns} if schema.grouped else None
    estimator.model_, estimator.preset_ = model, estimator.preset
    for name in LEARNED:
        setattr(estimator, name, document["learned"][name])
    estimator._set_features(estimator.columns_, named=document["named"])
    estimator._finish(document["history"])
    if document["has_prior"]:
        groups = list(schema.groups)
        prior = pd.DataFrame(model.edges.prior[0].cpu().numpy(), index=groups, columns=groups)
        estimator.edge_prior = prior.loc[estimator.groups_, estimator.groups_]
    return estimator
