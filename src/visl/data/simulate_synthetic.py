"""The paper's synthetic tables: a random graph, and sines of the parents along its edges."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visl.errors import InputError


@dataclass(frozen=True)
class SyntheticData:
    values: NDArray[np.float64]  # (rows, variables)
    edges: NDArray[np.bool_]  # (variables, variables), [from, to]
    names: tuple[str, ...]


def simulate_synthetic(
    n_variables: int,
    n_rows: int,
    rng: np.random.Generator,
    edge_probability: float = 0.5,
    noise_variance: float = 0.01,
    shuffle: bool = True,
) -> SyntheticData:
    """v_i = sum over parents j of sin(3 v_j) + e, e ~ N(0, noise_variance); a variable without parents is N(0, 1).

    Edges i -> j, i < j, are drawn with `edge_probability`; `shuffle` then permutes the variables, so that the order
    of the columns does not give the directions away.
    """
    _check(n_variables, n_rows, edge_probability, noise_variance)
    edges = np.triu(rng.random((n_variables, n_variables)) < edge_probability, k=1)
    values = _values_along(edges, n_rows, noise_variance, rng)
    if shuffle:
        order = rng.permutation(n_variables)
        values, edges = values[:, order], edges[np.ix_(order, order)]
    return SyntheticData(values, edges, tuple(f"x{i + 1}" for i in range(n_variables)))


def _values_along(
    edges: NDArray[np.bool_], n_rows: int, noise_variance: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """edges: upper triangular, so that column order is an order of causes.  -> (rows, variables)"""
    noise = rng.standard_normal((n_rows, len(edges)))
    values = np.empty_like(noise)
    for i in range(len(edges)):
        parents = edges[:, i]
        if parents.any():
            values[:, i] = np.sin(3 * values[:, parents]).sum(axis=1) + np.sqrt(noise_variance) * noise[:, i]
        else:
            values[:, i] = noise[:, i]
    return values


def _check(n_variables: int, n_rows: int, edge_probability: float, noise_variance: float) -> None:
    if n_variables < 1 or n_rows < 1:
        raise InputError(f"{n_variables} variables and {n_rows} rows: give at least one of each")
    if not 0 <= edge_probability <= 1:
        raise InputError(f"edge_probability {edge_probability} is no probability: give a number from 0 to 1")
    if noise_variance < 0:
        raise InputError(f"noise_variance {noise_variance} is negative: give a variance of 0 or more")
