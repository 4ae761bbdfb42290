"""Linear guesses of gaps, against the textbook's formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_helpers import build_model, cells_of_members, dense_cells, group_wise, variable_wise
from visl.batches import TrainingData
from visl.nets.guess import LEAST_DEVIATION, LinearGuess, condition
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL
from visl.table import Table

NAN = float("nan")


def covariance(n: int, rng: np.random.Generator) -> torch.Tensor:
    root = torch.from_numpy(rng.normal(size=(n, n)))
    return root @ root.T + 0.5 * torch.eye(n, dtype=torch.float64)


def by_the_textbook(S: torch.Tensor, seen: torch.Tensor, away: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """S[u, o] S[o, o]^-1 away[o] and S[u, u] - S[u, o] S[o, o]^-1 S[o, u] of one row."""
    o, u = seen.bool(), ~seen.bool()
    weights = torch.linalg.solve(S[o][:, o], S[o][:, u]).T
    return weights @ away[o], S[u][:, u] - weights @ S[o][:, u]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 5), st.booleans(), st.integers(0, 10_000))
def test_guesses_are_conditional_means_and_covariances(n: int, rows: int, fixed_size: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, seen = covariance(n, rng), torch.from_numpy(rng.random((rows, n)) < 0.5).double()
    away = torch.from_numpy(rng.normal(size=(rows, n)))
    found = condition(torch.linalg.inv(S)[None], seen, away, n_gaps=n if fixed_size else None)
    for r in range(rows):
        u = ~seen[r].bool()
        mean, left = by_the_textbook(S, seen[r], away[r])
        torch.testing.assert_close(found.away[r, u], mean)
        torch.testing.assert_close(found.away[r, ~u], away[r, ~u])
        every = torch.zeros(n, n, dtype=torch.float64)
        every[found.gaps[r][:, None], found.gaps[r]] = found.root[r].T @ found.root[r]
        torch.testing.assert_close(every[u][:, u], left)


def test_features_of_every_kind() -> None:
    """A number, a binary column, three levels without and with an order: 1 + 1 + 3 + 1 features."""
    guess = LinearGuess(variable_wise(CONTINUOUS, BINARY, CATEGORICAL, ORDINAL), 1)
    values, seen = guess.features(dense_cells([[0.5, 1, 2, 2], [NAN, 0, NAN, 1]]))
    assert values.tolist() == [[0.5, 1, 0, 0, 1, 2], [0, 0, 0, 0, 0, 1]]
    assert seen.tolist() == [[1] * 6, [0, 1, 0, 0, 0, 1]]
    hidden = torch.tensor([0.0, 1, 0, 1, 1, 1])
    values, seen = guess.features(dense_cells([[0.5, 1, 2, 2], [NAN, 0, NAN, 1]]), hidden)
    assert values[0].tolist() == [0, 1, 0, 0, 0, 2]
    assert seen[0].tolist() == [0, 1, 0, 0, 0, 1]


def filled_guess(S: torch.Tensor, mean: list[float], own_share: float = 0.0, n_members: int = 1) -> LinearGuess:
    guess = LinearGuess(variable_wise(*[CONTINUOUS] * len(mean)), n_members).double()
    guess.mean.copy_(torch.tensor(mean))
    guess.precision.copy_(torch.linalg.inv(S))
    guess.deviation.copy_(S.diagonal().sqrt())
    guess.own_share.fill_(own_share)
    return guess


def test_a_guess_of_two_columns_by_hand() -> None:
    """Variances 1 and 4, covariance 1: given x = 3 (mean 1), y is 5 + 1 * 2 with variance 4 - 1."""
    guess = filled_guess(torch.tensor([[1.0, 1], [1, 4]]).double(), [1.0, 5.0])
    found = guess(dense_cells([[3, NAN], [NAN, NAN]]))
    torch.testing.assert_close(found.mean[0], torch.tensor([3.0, 7]).double())
    torch.testing.assert_close(found.mean[1], torch.tensor([1.0, 5]).double())
    torch.testing.assert_close(found.deviation[0, 1], torch.tensor(3.0).double().sqrt())
    torch.testing.assert_close(found.deviation[1], torch.tensor([1.0, 2]).double())
    assert found.hidden.tolist() == [[0, 1], [1, 1]]


def test_a_guess_is_never_certain() -> None:
    same = torch.tensor([[1.0, 1 - 1e-6], [1 - 1e-6, 1]], dtype=torch.float64)
    found = filled_guess(same, [0.0, 0.0])(dense_cells([[3, NAN]]))
    assert found.deviation[0, 1] == pytest.approx(LEAST_DEVIATION)


def test_a_training_row_is_guessed_without_itself() -> None:
    """As if its outer product had never been in the covariance."""
    rng = np.random.default_rng(0)
    S, mean, share = covariance(4, rng), [0.1, 0.2, 0.3, 0.4], 0.01
    own = torch.from_numpy(rng.normal(size=(2, 4)))
    row = own.clone()
    row[:, [1, 3]] = torch.nan
    found = filled_guess(S, mean, share)(dense_cells(row.tolist()), own=own)
    for r in range(2):
        away = own[r] - torch.tensor(mean)
        less = S - share * torch.outer(away, away)
        expected, left = by_the_textbook(less, torch.tensor([1, 0, 1, 0]), away)
        torch.testing.assert_close(found.mean[r, [1, 3]] - torch.tensor([0.2, 0.4]), expected)
        torch.testing.assert_close(found.deviation[r, [1, 3]].square(), left.diagonal())


def test_members_have_guesses_of_their_own() -> None:
    S = torch.tensor([[[1.0, 0.5], [0.5, 1]], [[1.0, -0.5], [-0.5, 1]]]).double()
    guess = filled_guess(S[0], [0.0, 0.0], n_members=2)
    guess.precision.copy_(torch.linalg.inv(S))
    table = Table.from_dense(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[True, False]] * 2))
    schema = variable_wise(CONTINUOUS, CONTINUOUS)
    cells = cells_of_members(schema, TrainingData([table]), [[0, 1], [0, 1]], dtype=torch.float64)
    real = cells.padding.real.double()
    assert guess(cells, real).mean[:, 1].tolist() == pytest.approx([0.5, 1.0, -0.5, -1.0])


@pytest.mark.parametrize(
    ("schema", "settings", "expected"),
    [
        (variable_wise(*[CONTINUOUS] * 19), {}, False),
        (variable_wise(*[CONTINUOUS] * 20), {}, True),
        (variable_wise(*[BINARY] * 10, *[(CATEGORICAL, 5)] * 2), {}, True),
        (variable_wise(*[CONTINUOUS] * 20), {"linear_guess": False}, False),
        (variable_wise(*[CONTINUOUS] * 20), {"structure": "latent"}, False),
        (group_wise([CONTINUOUS] * 10, [CONTINUOUS] * 10), {}, False),
        (variable_wise(*[CONTINUOUS] * 401), {}, False),
    ],
)
def test_which_tables_have_guesses(schema: object, settings: dict, expected: bool) -> None:
    assert (build_model(schema, **({"structure": "auto"} | settings)).guess is not None) == expected
