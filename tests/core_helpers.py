"""Small builders shared by the tests of the numerical core."""

import dataclasses

import numpy as np
import torch
from hypothesis import strategies as st

from visl.batches import CellStore, TrainingData
from visl.config import IMPUTE, LATENT, Config, Phase
from visl.model import LossWeights, VislModel
from visl.schema import BINARY, CATEGORICAL, CONTINUOUS, ORDINAL, Column, Schema
from visl.table import Table

LEVELS = {CONTINUOUS: 0, BINARY: 2, CATEGORICAL: 3, ORDINAL: 3}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def generators(*seeds):
    return [generator(seed) for seed in seeds]


def _column(name, spec, group):
    """spec: a kind, or a kind and its number of levels"""
    kind, n_levels = spec if isinstance(spec, tuple) else (spec, LEVELS[spec])
    return Column(name, kind, group, levels=tuple(range(n_levels)))


def variable_wise(*specs):
    columns = tuple(_column(f"c{i}", spec, f"c{i}") for i, spec in enumerate(specs))
    return Schema(columns, tuple(column.name for column in columns), grouped=False)


def group_wise(*groups):
    """One list of column specs for each group."""
    columns = [_column(f"g{m}c{i}", spec, f"g{m}") for m, specs in enumerate(groups) for i, spec in enumerate(specs)]
    return Schema(tuple(columns), tuple(f"g{m}" for m in range(len(groups))), grouped=True)


def random_values(schema, n_rows, seed=0):
    """(N, D): scaled values or indices of levels."""
    rng = np.random.default_rng(seed)
    draw = [rng.integers(0, c.n_levels, n_rows) if c.n_levels else rng.random(n_rows) for c in schema.columns]
    return np.stack([np.asarray(values, float) for values in draw], axis=1)


def random_observed(shape, rate=0.6, seed=0):
    return np.random.default_rng(seed).random(shape) < rate


def random_table(schema, n_rows, rate=0.6, seed=0):
    values = random_values(schema, n_rows, seed)
    return Table.from_dense(values, random_observed(values.shape, rate, seed + 1))


def cells_of(table, rows=None, dtype=torch.float32):
    """Rows of a table for a single model."""
    rows = torch.arange(table.n_rows) if rows is None else torch.as_tensor(rows)
    schema = variable_wise(*[BINARY] * table.n_columns)  # of a single model's batch only the number of columns matters
    return cells_of_members(schema, TrainingData([table]), rows[None], dtype=dtype)


def cells_of_members(schema, data, rows, shape=None, dtype=torch.float32):
    """rows: (K, B) of the tables laid one after the other; without a shape they have just the room they need"""
    rows = torch.as_tensor(rows)
    store = CellStore(data, schema, len(rows), torch.device("cpu"))
    cells = store.batch(rows, shape or store.exact_shape(rows))
    return dataclasses.replace(cells, value=cells.value.to(dtype))


def dense_cells(values, dtype=torch.float64):
    """Cells of a list of rows, with None for a gap."""
    array = np.array(values, float)
    return cells_of(Table.from_dense(array, ~np.isnan(array)), dtype=dtype)


def build_model(schema, seed=0, prior=None, **settings):
    return build_members(schema, [seed], prior, **settings)


def build_members(schema, seeds, prior=None, changes=None, **settings):
    """In the paper's form, whose oracles are simplest; settings may say otherwise. changes: of each member's own."""
    paper = {
        "structure": "latent",
        "keep_own": False,
        "group_embeddings": False,
        "absent_below": 0.0,
        "decay_learning_rates": False,
        "mark_observed": False,
        "n_knots": 0,
        "mixture_components": 1,
        "unjoined_weight": 0.0,
        "kl_latent_weight": 0.001,
        "kl_imputing_weight": None,
        "epoch_steps": 1,
        "standardise": False,
        "shared_networks": True,
        "max_drop_rate": 0.99,
    }
    of_all = {"latent_dim": 4, "epochs": 2, "batch_size": 4, **paper, **settings}
    configs = [Config(**{**of_all, **own}) for own in changes or [{}] * len(seeds)]
    M = len(schema.groups)
    prior = torch.full((M, M), configs[0].edge_prior) if prior is None else torch.as_tensor(prior, dtype=torch.float32)
    return VislModel(schema, configs, prior, generators(*seeds))


def elbo_terms(model, cells, shown=None, *, seed=0, noise=None, uniform=None, backward=False):
    """The model's terms at noise from the seed, or at the given one."""
    K, M, d = model.n_members, model.n_groups, model.config.latent_dim
    rng, dtype = generator(seed), model.noise_variance.dtype
    random_noise = torch.randn(K, cells.n_rows // K, M, d, generator=rng, dtype=dtype)
    random_uniform = torch.rand(K, M, M, generator=rng, dtype=dtype)
    noise, uniform = random_noise if noise is None else noise, random_uniform if uniform is None else uniform
    phase = Phase(IMPUTE if backward else LATENT, 0, 1)
    return model(cells, shown, noise, uniform, phase=phase)


def loss_weights(model, kl_latent=0.001, kl_edges=1.0, acyclicity=5.0):
    weights = (kl_latent, kl_edges, acyclicity)
    return LossWeights(*(torch.full((model.n_members,), weight) for weight in weights))


def all_parameters(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@st.composite
def dags(draw, min_nodes=1, max_nodes=6):
    """(M, M) bool [from, to], acyclic, its nodes in any order."""
    M = draw(st.integers(min_nodes, max_nodes))
    bits = draw(st.lists(st.booleans(), min_size=M * M, max_size=M * M))
    order = np.array(draw(st.permutations(range(M))))
    return np.triu(np.reshape(bits, (M, M)), 1)[np.ix_(order, order)]
