"""Graphs between levels, found by counting: the network of Lauritzen and Spiegelhalter (1988).

With its tables, but that tuberculosis is less rare, and either of the two is not quite certain to be noted: else each
of the three could be told from the two others in three ways.
"""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from visl import VISL

TRUE = {
    *(("asia", "tub"), ("smoke", "lung"), ("smoke", "bronc"), ("tub", "either"), ("lung", "either")),
    *(("either", "xray"), ("either", "dysp"), ("bronc", "dysp")),
}
SETTINGS = {"latent_dim": 2, "epochs": 6, "n_draws": 2, "random_state": 0}


def patients(n_rows=5000, seed=0):
    rng = np.random.default_rng(seed)

    def yes(probability):
        return rng.random(n_rows) < probability

    asia, smoke = yes(0.05), yes(0.5)
    tub, lung, bronc = yes(np.where(asia, 0.3, 0.05)), yes(np.where(smoke, 0.1, 0.01)), yes(np.where(smoke, 0.6, 0.3))
    either = yes(np.where(tub | lung, 0.95, 0.02))
    xray = yes(np.where(either, 0.98, 0.05))
    dysp = yes(np.select([bronc & either, either, bronc], [0.9, 0.7, 0.8], 0.1))
    columns = {"asia": asia, "tub": tub, "smoke": smoke, "lung": lung, "bronc": bronc}
    return pd.DataFrame(columns | {"either": either, "xray": xray, "dysp": dysp})


@pytest.fixture(scope="module")
def found():
    return VISL(**SETTINGS).fit(patients())


def joined(model):
    return {frozenset(edge) for edge in model.graph_.edges}


def test_the_graph_is_found(found):
    assert joined(found) == {frozenset(edge) for edge in TRUE}
    assert nx.is_directed_acyclic_graph(found.graph_)
    p = found.edge_probabilities_
    for edge in [("tub", "either"), ("lung", "either"), ("either", "dysp"), ("bronc", "dysp"), ("either", "xray")]:
        assert p.loc[edge] > 0.9  # told by colliders


def test_what_no_counts_can_tell_has_half(found):
    p = found.edge_probabilities_
    for one, other in (("smoke", "bronc"), ("smoke", "lung")):
        assert p.loc[one, other] == pytest.approx(p.loc[other, one], abs=0.1)
        assert p.loc[one, other] + p.loc[other, one] > 0.95


def test_neither_the_order_of_columns_nor_the_names_of_levels_matter(found):
    other = patients().iloc[:, ::-1].replace({True: "a", False: "b"})
    again = VISL(**SETTINGS).fit(other).edge_probabilities_
    assert joined(found) == joined(VISL(**SETTINGS).fit(patients().iloc[:, ::-1]))
    # Replicates are drawn anew; what they agree on stays.
    pd.testing.assert_frame_equal(
        again.loc[found.groups_, found.groups_],
        found.edge_probabilities_,
        check_exact=False,
        atol=0.25,
        check_names=False,
    )


def test_with_gaps_and_knowledge():
    table = patients()
    shown = table.astype(object).mask(np.random.default_rng(1).random(table.shape) < 0.2)
    model = VISL(required_edges=[("smoke", "bronc")], forbidden_edges=[("lung", "smoke")], **SETTINGS).fit(shown)
    p = model.edge_probabilities_
    assert p.loc["smoke", "bronc"] == 1.0
    assert p.loc["bronc", "smoke"] == p.loc["lung", "smoke"] == 0.0
    assert p.loc["smoke", "lung"] > 0.95
    assert not {frozenset(edge) for edge in model.graph_.edges} - {frozenset(edge) for edge in TRUE}


def test_stage_1_takes_no_epoch(found):
    assert found.history_["stage"].tolist() == [2] * 2
    assert found.history_["epoch"].tolist() == [1, 2]
