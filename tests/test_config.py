import dataclasses

import pytest

from visl.config import IMPUTE, LATENT, PRESETS, Config, Phase, build_config, default_edge_probability
from visl.errors import InputError

# The paper's numbers, shared by all of its settings.
COMMON = {
    "edge_prior": 0.05,
    "edge_temperature": 0.5,
    "continuous_variance": 0.02,
    "kl_latent_weight": 0.001,
    "kl_imputing_weight": None,
    "hold_back": 0.0,
    "kl_edges_weight": 50.0,
    "kl_edges_over_groups": True,
    "edge_learning_rate": None,
    "min_batches": 1,
    "calibrate_noise": False,
    "acyclicity_weight": 50.0,
    "acyclicity_start_epoch": 5,
    "acyclicity_ramp": 0.1,
    "acyclicity_on": "probabilities",
    "max_drop_rate": 0.99,
}
PAPER = {
    "paper-synthetic": {
        "latent_dim": 256,
        "message_steps": 3,
        "initial_edge_probability": 0.5,
        "epochs": 300,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "n_draws": 100,
    },
    "paper-neuropathic": {
        "latent_dim": 32,
        "message_steps": 3,
        "initial_edge_probability": 0.2,
        "epochs": 1000,
        "batch_size": 25,
        "learning_rate": 1e-3,
        "n_draws": 10,
    },
    "paper-eedi": {
        "latent_dim": 15,
        "message_steps": 8,
        "initial_edge_probability": 0.2,
        "epochs": 1000,
        "batch_size": 25,
        "learning_rate": 1e-4,
        "n_draws": 10,
    },
}


@pytest.mark.parametrize("preset", PAPER)
def test_presets_carry_the_papers_numbers(preset):
    found = dataclasses.asdict(PRESETS[preset])
    expected = COMMON | PAPER[preset]
    assert {name: found[name] for name in expected} == expected


def test_every_preset_is_checked_here():
    assert set(PRESETS) == {"default", "best", *PAPER}
    assert PRESETS["default"] == Config()


def test_build_config_puts_settings_over_the_preset():
    config = build_config("paper-eedi", epochs=7, learning_rate=None)
    assert (config.epochs, config.learning_rate, config.latent_dim) == (7, 1e-4, 15)
    assert build_config() == Config()


def test_unknown_preset_names_the_known_ones():
    with pytest.raises(InputError, match="'paper-eedy'.*'paper-eedi'"):
        build_config("paper-eedy")


def test_unknown_setting_is_named():
    with pytest.raises(InputError, match="'epoch'.*epochs"):
        build_config(epoch=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in ("latent_dim", "message_steps", "epochs") for value in (0, -1, 2.0, True, "3")],
        ("batch_size", 0),
        ("n_draws", 0),
        *[(name, value) for name in ("edge_temperature", "continuous_variance") for value in (0.0, -1.0)],
        *[("learning_rate", value) for value in (0.0, float("nan"), "fast", None)],
        ("kl_latent_weight", -0.1),
        ("kl_imputing_weight", -0.1),
        ("hold_back", 1.1),
        ("kl_edges_weight", -0.1),
        ("acyclicity_weight", -0.1),
        ("acyclicity_start_epoch", -1),
        ("acyclicity_ramp", 1.1),
        ("max_drop_rate", 1.1),
        ("max_drop_rate", -0.1),
        ("edge_prior", 1.1),
        ("edge_prior", -0.1),
        ("initial_edge_probability", 0.0),
        ("initial_edge_probability", 1.0),
        ("acyclicity_on", "graph"),
    ],
)
def test_invalid_values_are_named(name, value):
    with pytest.raises(InputError, match=f"^{name} is {value!r}"):
        Config(**{name: value})


def test_latent_vectors_have_a_weight_of_their_own_where_networks_impute():
    """Of four epochs of the latent form the last two are stage 2."""
    config = Config(kl_latent_weight=0.1, kl_imputing_weight=0.7, epochs=4)

    def weights(config: Config, *, fitted: bool = False, has_numbers: bool = False) -> list[float]:
        return [config.kl_latent_weight_at(epoch, fitted=fitted, has_numbers=has_numbers) for epoch in range(4)]

    assert weights(config) == [0.1, 0.1, 0.7, 0.7]
    assert weights(config, fitted=True) == weights(config, has_numbers=True) == [0.1] * 4
    assert weights(dataclasses.replace(config, kl_imputing_weight=None)) == [0.1] * 4


def test_values_on_the_border_are_allowed():
    low = Config(edge_prior=0.0, max_drop_rate=1.0, acyclicity_ramp=0.0, kl_latent_weight=0.0, epochs=1)
    high = Config(edge_prior=1.0, max_drop_rate=0.0, acyclicity_ramp=1.0, acyclicity_weight=0.0, latent_dim=1)
    assert (low.edge_prior, high.edge_prior) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("epochs", "stages", "with_fits", "soon"),
    [
        (1, (1, 0), (0, 1), (0, 1)),
        (2, (1, 1), (0, 1), (0, 1)),
        (3, (2, 1), (0, 2), (0, 1)),
        (300, (150, 150), (0, 200), (0, 100)),
    ],
)
def test_stage_epochs(epochs, stages, with_fits, soon):
    config = Config(epochs=epochs)
    assert config.stage_epochs(fitted=False) == stages
    assert config.stage_epochs(fitted=True) == with_fits
    assert config.stage_epochs(fitted=True, soon=True) == soon


def test_acyclicity_weight_by_hand():
    # 300 epochs: off in epochs 0 to 4, then 1/30, 2/30, ... of 50 over 10 % of the epochs, and 50 from epoch 34 on.
    config = PRESETS["paper-synthetic"]
    weight = [config.acyclicity_weight_at(epoch) for epoch in range(300)]
    assert weight[:5] == [0.0] * 5
    assert weight[5] == pytest.approx(50 / 30)
    assert weight[19] == pytest.approx(25.0)
    assert weight[33] < 50.0
    assert weight[34] == weight[299] == 50.0


def test_phases_are_the_papers_two_stages_but_where_fits_find_the_graph():
    phases = Config(epochs=5).phases(fitted=False)
    assert [(phase.name, phase.first, phase.end, phase.stage) for phase in phases] == [
        ("latent", 0, 3, 1),
        ("impute", 3, 5, 2),
    ]
    assert Config(epochs=1).phases(fitted=False) == (Phase(LATENT, 0, 1),)
    assert Config(epochs=5).phases(fitted=True) == (Phase(IMPUTE, 0, 3),)
    assert Config(epochs=5).phases(fitted=True, soon=True) == (Phase(IMPUTE, 0, 1),)


def test_learning_rates_fall_along_half_a_cosine_in_each_stage():
    share = [Config(epochs=8).learning_rate_share(epoch, fitted=False) for epoch in range(8)]
    assert share[0] == share[4] == 1.0
    assert share[2] == share[6] == pytest.approx(0.003 + 0.997 / 2)
    assert share[3] == share[7] == pytest.approx(0.003 + 0.997 * 0.5 * (1 - 2**-0.5))
    with_fits = [Config(epochs=12).learning_rate_share(epoch, fitted=True) for epoch in (0, 4, 6)]
    assert with_fits == pytest.approx([1.0, share[2], share[3]])
    soon = [Config(epochs=12).learning_rate_share(epoch, fitted=True, soon=True) for epoch in range(4)]
    assert soon == pytest.approx(share[:4])
    assert {PRESETS["paper-eedi"].learning_rate_share(epoch, fitted=False) for epoch in (0, 500, 999)} == {1.0}


@pytest.mark.parametrize(("given", "fitted", "expected"), [(None, False, 0.99), (None, True, 0.7), (0.2, True, 0.2)])
def test_fewer_cells_are_hidden_where_fits_find_the_graph(given, fitted, expected):
    assert Config(max_drop_rate=given).drop_rate(fitted=fitted) == expected


@pytest.mark.parametrize(("given", "expected"), [(0.5, (0.1, 0.5)), (None, (0.1, 0.1))])
def test_learning_rates_of_networks_and_edges(given, expected):
    assert Config(learning_rate=0.1, edge_learning_rate=given).learning_rates() == expected


def test_acyclicity_is_not_off_for_the_whole_of_a_short_first_stage():
    # 20 epochs: stage 1 has 10, so the term is off in 1 of them; then 2 epochs of ramp to 5.
    config = Config(epochs=20)
    assert [config.acyclicity_weight_at(epoch) for epoch in range(4)] == [0.0, 2.5, 5.0, 5.0]


def test_small_tables_have_smaller_batches_unless_the_user_says_so():
    assert Config().batch_rows(5000) == 100
    assert Config().batch_rows(95) == 10  # at least 10 steps an epoch
    assert Config().batch_rows(3) == 1
    assert build_config(batch_size=50).batch_rows(95) == 50
    assert PRESETS["paper-synthetic"].batch_rows(150) == 100


def test_acyclicity_weight_without_ramp_or_delay():
    config = Config(epochs=4, acyclicity_start_epoch=0, acyclicity_ramp=0.0, acyclicity_weight=3.0)
    assert [config.acyclicity_weight_at(epoch) for epoch in range(4)] == [3.0] * 4


@pytest.mark.parametrize(("n_groups", "expected"), [(1, 0.5), (9, 0.5), (36, 0.5), (100, 0.3), (900, 0.1)])
def test_default_edge_probability_by_hand(n_groups, expected):
    assert default_edge_probability(n_groups) == pytest.approx(expected)


def test_default_edge_probability_gives_the_papers_value_and_stays_in_range():
    assert default_edge_probability(222) == pytest.approx(0.2, abs=0.005)
    for M in (1, 5, 36, 37, 222, 1000, 100_000):
        assert default_edge_probability(M) ** 2 * M <= 9 + 1e-9
