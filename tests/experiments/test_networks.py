"""Bayesian networks from files, rows drawn from them, and what an experiment makes of these."""

import numpy as np
import pytest

from experiment_helpers import NETWORK, write_network
from visl.errors import InputError
from visl.experiments import networks
from visl.experiments.bayesian_network import parse_bif


def test_a_file_by_hand():
    network = parse_bif(NETWORK, "lawn.bif")
    assert [(v.name, v.levels, v.parents) for v in network.variables] == [
        ("rain", ("yes", "no"), ()),
        ("grass", ("<5", "5-12", "12+"), (0, 2)),
        ("sprinkler", ("yes", "no"), (0,)),
    ]
    assert network.variables[1].table[0, 1].tolist() == [0, 0, 1]  # rain, no sprinkler
    assert network.variables[1].table[1, 0].tolist() == [0.2, 0.3, 0.5]
    assert np.argwhere(network.edges).tolist() == [[0, 1], [0, 2], [2, 1]]


def test_rows_have_the_shares_of_the_tables():
    rows = parse_bif(NETWORK, "lawn.bif").sample(40_000, np.random.default_rng(0))
    rain, grass, sprinkler = rows.T
    assert (rain == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert not ((rain == 0) & (sprinkler == 0)).any()
    assert set(grass[(rain == 0) & (sprinkler == 1)]) == {2}
    assert set(grass[(rain == 1) & (sprinkler == 1)]) == {0}
    some = grass[(rain == 1) & (sprinkler == 0)]
    np.testing.assert_allclose(np.bincount(some) / len(some), [0.2, 0.3, 0.5], atol=0.02)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("table 0.25, 0.75;", "table 0.25, 0.25;", "lawn.bif, rain: the shares of a line are missing or do not add up"),
        ("  (yes, no) 0.0, 0.0, 1.0;\n", "", "lawn.bif, grass: the shares of a line are missing"),
        ("(no) 0.5, 0.5", "(maybe) 0.5, 0.5", r"lawn.bif, sprinkler: the line '\(maybe\) 0.5, 0.5' does not fit"),
        ("(no) 0.5, 0.5", "(no) 0.5, half", "does not fit its levels"),
        ("grass | rain, sprinkler", "grass | snow, sprinkler", "'snow' has a probability but is no variable"),
        ("probability ( rain )", "chance ( rain )", "rain has no probabilities: it is no whole BIF file"),
        (NETWORK, "", "it has no probabilities"),
    ],
)
def test_a_damaged_file_is_refused(old, new, words):
    assert old in NETWORK
    with pytest.raises(InputError, match=words):
        parse_bif(NETWORK.replace(old, new), "lawn.bif")


def test_a_cycle_is_refused():
    alone, given = "( rain ) {\n  table 0.25, 0.75;", "( rain | sprinkler ) {\n  (yes) 0.5, 0.5;\n  (no) 0.5, 0.5;"
    assert alone in NETWORK
    with pytest.raises(InputError, match="the network has a cycle"):
        parse_bif(NETWORK.replace(alone, given), "lawn.bif").sample(3, np.random.default_rng(0))


def test_columns_are_shuffled_and_the_graph_with_them(tmp_path):
    write_network(tmp_path / "bnlearn")
    seen = set()
    for data_set in networks.data_sets(False)[:3]:
        problem, truth = networks.load(data_set, tmp_path)
        assert problem.train.shape == (1000, 3)
        grass = problem.n_levels.index(3)
        assert problem.kinds[grass] == "categorical"
        assert truth.edges[:, grass].sum() == 2
        assert truth.edges.sum() == 3
        assert not len(problem.asked_row)
        seen.add(grass)
    assert len(seen) > 1


def test_a_broken_archive_is_named(tmp_path):
    write_network(tmp_path / "bnlearn")
    (tmp_path / "bnlearn" / "asia.bif.gz").write_text("no archive")
    with pytest.raises(InputError, match=r"asia\.bif\.gz cannot be read .*download it again"):
        networks.load(networks.data_sets(False)[0], tmp_path)
