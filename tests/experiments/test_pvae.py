import pickle

import numpy as np
import pytest
import torch

from visl.experiments.methods.cells import Mixture
from visl.experiments.methods.pvae import PartialVae, PvaeSettings, pvae
from visl.experiments.problem import Problem, Run

NAN = np.nan


def copies(kind, seed=0, n_train=400, n_test=60, D=4):
    """Columns that all follow one hidden number; two cells of every test row are asked."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n_train + n_test)
    table = np.clip(hidden[:, None] + 0.05 * rng.standard_normal((len(hidden), D)), 0, 1)
    if kind == "binary":
        table = (table > 0.5).astype(float)
    test = table[n_train:].copy()
    asked = np.zeros(test.shape, bool)
    asked[:, :2] = True
    test[asked] = NAN
    rows, columns = np.nonzero(asked)
    truth = table[n_train:][asked]
    return Problem(table[:n_train], test, rows, columns, (kind,) * D, np.arange(D)), truth


def model_of(*is_binary):
    return PartialVae(torch.tensor(is_binary), PvaeSettings(), torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_beats_the_mean_on_correlated_columns(kind):
    problem, truth = copies(kind)
    found = pvae(problem, Run(epochs=40)).imputation
    means = problem.train.mean(axis=0)[problem.asked_column]
    assert np.sqrt(np.mean((found.mean - truth) ** 2)) < 0.6 * np.sqrt(np.mean((means - truth) ** 2))
    assert ((found.low <= found.mean + 1e-6) | (kind == "binary")).all()
    assert np.mean((found.low <= truth) & (truth <= found.high)) > 0.8
    assert np.isfinite(found.log_density(truth)).all()


def test_same_seed_same_answer_and_answers_travel():
    problem, truth = copies("continuous", n_train=50, n_test=5)
    first, second = (pvae(problem, Run(seed=2, epochs=2)) for _ in range(2))
    assert np.array_equal(first.imputation.mean, second.imputation.mean)
    assert not np.array_equal(first.imputation.mean, pvae(problem, Run(seed=3, epochs=2)).imputation.mean)
    again = pickle.loads(pickle.dumps(first))  # noqa: S301
    assert np.array_equal(again.imputation.log_density(truth), first.imputation.log_density(truth))


def test_the_encoder_reads_observed_cells_alone_and_in_any_order():
    model = model_of(True, False, False)
    values, observed = torch.tensor([[1.0, 0.3, 0.7]]), torch.tensor([[1.0, 0.0, 1.0]])
    moved = values.clone()
    moved[0, 1] = 9.0
    assert torch.equal(model.encode(values, observed)[0], model.encode(moved, observed)[0])
    order = [2, 0, 1]
    shuffled = model_of(False, True, False)
    with torch.no_grad():
        shuffled.embedding.copy_(model.embedding[:, order])
        shuffled.bias.copy_(model.bias[:, order])
    mean, log_variance = shuffled.encode(values[:, order], observed[:, order])
    assert torch.allclose(mean, model.encode(values, observed)[0], atol=1e-6)
    assert torch.allclose(log_variance, model.encode(values, observed)[1], atol=1e-6)


def test_the_factored_set_encoder_is_the_plain_one():
    model = model_of(True, False, False)
    values = torch.tensor([[1.0, 0.3, 0.7]])
    cell = torch.cat([values[..., None], values[..., None] * model.embedding, model.bias], dim=2)  # [x, x e, b]
    of_set = torch.relu(model.shared(cell)).sum(1)
    plain = model.encoder(of_set[None])[0].chunk(2, dim=-1)[0]
    assert torch.allclose(model.encode(values, torch.ones(1, 3))[0], plain, atol=1e-6)


def test_gaps_add_nothing_to_the_loss_and_dropped_cells_do():
    model, rng = model_of(True, False, False), torch.Generator()
    values, none = torch.tensor([[1.0, 0.3, 0.7]]), torch.zeros(1, 3)

    def loss(values, observed):
        return model.loss(values, observed, none, rng.manual_seed(0))

    observed = torch.tensor([[1.0, 0.0, 1.0]])
    moved = values.clone()
    moved[0, 1] = 9.0
    assert torch.equal(loss(values, observed), loss(moved, observed))
    assert loss(values, observed) > loss(values, none)  # nothing is shown, all observed cells are scored


def test_gaps_in_training_are_not_read_as_numbers():
    """A column seen in 10 % of the rows, always at 0.9, must not be pulled towards the 0 that stands for a gap."""
    problem, _ = copies("continuous")
    train, test = problem.train.copy(), problem.test.copy()
    train[:, 0] = np.where(np.arange(len(train)) % 10 == 0, 0.9, NAN)
    gappy = Problem(train, test, problem.asked_row, problem.asked_column, problem.kinds, problem.group_of)
    found = pvae(gappy, Run(epochs=60)).imputation.mean[problem.asked_column == 0]
    assert found == pytest.approx(np.full(len(found), 0.9), abs=0.1)


def test_mixture_by_hand():
    draws = np.array([[0.0, 0.2], [1.0, 0.6]], np.float32)
    mixture = Mixture(draws, np.array([0.1, 0.1]), np.array([False, True]))
    density = mixture.log_density(np.array([0.0, 1.0]))
    # Half of N(0; 0, .01); the other component is ten deviations away. P(1) = (.2 + .6) / 2.
    assert density == pytest.approx([np.log(0.5 / (0.1 * np.sqrt(2 * np.pi))), np.log(0.4)], abs=1e-6)
    found = mixture.imputation()
    assert found.mean == pytest.approx([0.5, 0.4])
    # 5 % of the mixture is 10 % of its lower component: -1.2816 deviations.
    assert [found.low[0], found.high[0]] == pytest.approx([-0.12816, 1.12816], abs=1e-4)
    assert [found.low[1], found.high[1]] == [0.0, 1.0]
