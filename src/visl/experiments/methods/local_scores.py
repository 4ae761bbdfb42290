"""BIC of one column given its parents: log-likelihood - parameters / 2 * log N; higher is better."""

from __future__ import annotations

import numpy as np

from visl.experiments.problem import FloatArray, IntArray

_LEAST_VARIANCE = 1e-12  # of a column of variance 1 that its parents determine


class DiscreteBic:
    """A free distribution for every combination of the parents' levels."""

    def __init__(self, levels: IntArray) -> None:  # (N, D), 0, 1, ...
        self._columns = np.ascontiguousarray(levels.T)
        self._n_levels = [int(n) for n in levels.max(0) + 1]
        self._half_log_rows = 0.5 * np.log(len(levels))

    def __call__(self, node: int, parents: frozenset[int]) -> float:
        combination, n_combinations = self._combinations(parents)
        n_levels = self._n_levels[node]
        cells = combination * n_levels + self._columns[node]
        counts = np.bincount(cells, minlength=n_levels).astype(np.float64)
        totals = np.bincount(combination).astype(np.float64)
        penalty = self._half_log_rows * n_combinations * (n_levels - 1)
        return _sum_n_log_n(counts) - _sum_n_log_n(totals) - penalty

    def _combinations(self, parents: frozenset[int]) -> tuple[IntArray, float]:
        """Of each row the number of its combination, and how many there could be."""
        code, n_codes, n_possible = np.zeros(self._columns.shape[1], dtype=np.int64), 1, 1.0
        for parent in sorted(parents):
            code, n_codes = code * self._n_levels[parent] + self._columns[parent], n_codes * self._n_levels[parent]
            n_possible *= self._n_levels[parent]
            if n_codes > 4 * len(code):  # mostly combinations that no row has: count only those that one has
                seen, code = np.unique(code, return_inverse=True)
                n_codes = len(seen)
        return code, n_possible


class GaussianBic:
    """Linear in the parents, Gaussian noise."""

    def __init__(self, values: FloatArray) -> None:  # (N, D)
        self._n_rows = len(values)
        self._correlation: FloatArray = np.atleast_2d(np.corrcoef(values, rowvar=False))

    def __call__(self, node: int, parents: frozenset[int]) -> float:
        variance = 1.0
        if parents:
            among = sorted(parents)
            shared = self._correlation[among, node]
            within = self._correlation[np.ix_(among, among)]
            variance -= float(shared @ np.linalg.lstsq(within, shared)[0])
        penalty = 0.5 * (len(parents) + 1) * np.log(self._n_rows)
        return float(-0.5 * self._n_rows * np.log(max(variance, _LEAST_VARIANCE)) - penalty)


def _sum_n_log_n(counts: FloatArray) -> float:
    seen = counts[counts > 0]
    return float(seen @ np.log(seen))
