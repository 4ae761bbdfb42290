"""VISL, the scikit-learn face of the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import networkx as nx
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from visl import store
from visl.batches import TrainingData, member_seeds
from visl.config import Config
from visl.data.align import match_log, match_table
from visl.data.codec import describe_constants, encode
from visl.data.frames import arranged, fill, probability_frame
from visl.data.knowledge import resolve_prior
from visl.data.long import LongLog
from visl.data.masks import hide as hide_cells
from visl.data.source import Name
from visl.errors import InputError, warn_user
from visl.finishing import finish, found_after_training
from visl.inference import AskedCells, Imputer
from visl.log_cells import check_asked, predict_log_cells
from visl.model import VislModel
from visl.persistence import from_document, to_document
from visl.preparation import prepare
from visl.reading import Reading, read_table
from visl.schema import CONTINUOUS, Schema
from visl.scoring import score_hidden
from visl.settings import check_share, check_threshold, config_of, generator_of, kept_preset, seed_of
from visl.steps import Alone, Engine, find_device
from visl.training import Interrupted, TrainingState, train

# Settings of the constructor that a preset fills in when they are None.
PRESET_SETTINGS = ("epochs", "batch_size", "learning_rate", "latent_dim", "message_steps", "n_draws", "n_members")


def _has_discrete_columns(model: VISL) -> bool:
    return any(column.kind != CONTINUOUS for column in model.schema_.columns) if hasattr(model, "schema_") else False


class VISL(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fills the gaps of a table and learns a graph, with a probability on every edge, between groups of its columns.

    X may be a pandas, polars or pyarrow frame, a NumPy array with NaN for gaps, or (`fit`, `predict_cells`,
    `evaluate`) a `LongLog`. Results come back in the same form.

    Parameters
    ----------
    groups : mapping column -> group, mapping group -> columns, path of a JSON or CSV file of either, or None
        The nodes of the graph. A column in no group is a group of its own; None: every column is (variable-wise).
    kinds : mapping column -> "continuous", "binary", "categorical", "ordinal" or a list of ordered levels, or one kind
        Overrides what is inferred from the values.
    edge_prior : float, groups x groups table, path of a CSV file, or None
        Prior probability of edges, rows = from. 0 and 1 are hard. None: from the preset.
    forbidden_edges, required_edges : lists of (from, to), paths of CSV files, or None
        Edges that never, or always, appear.
    preset : "default", "best", "paper-synthetic", "paper-neuropathic", "paper-eedi", path of a preset file, or mapping
        None is "default"; "best" takes some ten times as long. A preset file, such as the best.json of `visl tune`, or
        a mapping is {"preset": one of these names, "settings": {setting of `visl.config.Config`: value}}.
    epochs, batch_size, learning_rate, latent_dim, message_steps, n_draws : numbers or None
        None: from the preset.
    n_members : int or None
        Models from different seeds, trained side by side. Edge probabilities are their means, with the spread between
        the members beside them, and imputations are drawn from all of them alike. Between single columns graphs come
        from the same rows, and members hardly differ in them: probabilities say what the rows leave open. None: from
        the preset.
    edge_threshold : float
        `graph_` holds edges more probable than this; between single columns, whose two directions exclude each other,
        pairs whose directions together are, in the likelier direction.
    random_state : int, RandomState, Generator or None
    device : "auto", "cpu", "cuda" or any name torch knows
    verbose : int
        1 prints about ten lines in a fit, 2 one for each epoch.
    round_integers : bool
        Columns in which every observed value is whole are filled with whole numbers.

    Attributes
    ----------
    edge_probabilities_ : DataFrame, rows = from, columns = to
    edge_spread_ : DataFrame of the same shape: standard deviation between the members, 0 for a single one
    graph_ : networkx.DiGraph, always acyclic; edges carry `probability` (this direction), `adjacency` (either) and
        `spread` (of the probability, between the members)
    history_ : DataFrame of every loss term in every epoch of both stages; of stage 2 alone between single columns, for
        which the graph is found before networks learn
    kinds_ : dict column -> kind
    notices_ : list of what a user should know about the data
    """

    def __init__(
        self,
        groups: Any = None,
        kinds: Any = None,
        edge_prior: Any = None,
        forbidden_edges: Any = None,
        required_edges: Any = None,
        preset: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        latent_dim: int | None = None,
        message_steps: int | None = None,
        n_draws: int | None = None,
        n_members: int | None = None,
        edge_threshold: float = 0.5,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
        round_integers: bool = True,
    ) -> None:
        self.groups = groups
        self.kinds = kinds
        self.edge_prior = edge_prior
        self.forbidden_edges = forbidden_edges
        self.required_edges = required_edges
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.latent_dim = latent_dim
        self.message_steps = message_steps
        self.n_draws = n_draws
        self.n_members = n_members
        self.edge_threshold = edge_threshold
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.round_integers = round_integers

    # -- learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the graph and the imputation model from a table with gaps. y is ignored."""
        return self._fit(X, on_epoch=self._print_epoch)

    def _fit(
        self,
        X: Any,
        *,
        on_epoch: Callable[[dict[str, float]], None],
        on_start: Callable[[], None] = lambda: None,
        on_search: Callable[[int, int], None] = lambda done, of: None,
        should_stop: Callable[[TrainingState], bool] = lambda state: False,
        keep: Callable[[Callable[[], TrainingState]], None] = lambda snapshot: None,
        checkpoint: str | Path | None = None,
        set_aside: Sequence[Name] = (),
        engine: Engine | None = None,
    ) -> Self:
        """As `fit`; reports each epoch, can be stopped (`Interrupted`), and goes on from a checkpoint.

        on_start: called when the table is understood and training begins. set_aside: columns that the caller left out.
        engine: other processes that fit the same model. on_search, keep: see `train`.
        """
        before, engine = dict(self.__dict__), engine or Alone()
        try:
            for name in [name for name in before if name.endswith("_") and not name.startswith("_")]:
                delattr(self, name)  # nothing of an earlier fit may be taken for this one's
            data = self._prepare(X, set_aside, engine)
            state = None if checkpoint is None else engine.agree(lambda: self._go_on_from(checkpoint))
            on_start()
            seeds = member_seeds(self.seed_, self.model_.n_members)
            begun = time.monotonic()
            history = train(
                self.model_, data, seeds=seeds, state=state, on_search=on_search, on_epoch=on_epoch,
                should_stop=should_stop, keep=keep, engine=engine,
            )  # fmt: skip
            self.training_seconds_ = time.monotonic() - begun  # of this process, from the table's understanding on
            self._find_after_training(data, engine)
            self._finish(history)
        except Interrupted:
            raise  # what there is goes into a checkpoint
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _find_after_training(self, data: TrainingData, engine: Engine) -> None:
        """On the largest part of the data, by the first process that has it: the same however many there are."""
        largest = int(np.argmax(data.sizes))
        own = list(data.parts).index(largest) if largest in data.parts else None
        if own is not None:
            finish(self.model_, data.tables[own], seed=self.seed_)
        for learned in found_after_training(self.model_) if engine.world > 1 else ():
            found = engine.gather(None if own is None else learned.tolist())
            numbers = next(numbers for numbers in found if numbers is not None)
            learned.copy_(torch.tensor(numbers, dtype=learned.dtype))

    def _prepare(self, X: Any, set_aside: Sequence[Name], engine: Engine) -> TrainingData:
        """Everything up to training: the table understood, the model with its first weights."""
        config = self._config()
        self.preset_ = kept_preset(self.preset)
        prepared = prepare(self, X, engine)
        schema = prepared.schema
        self._set_features(prepared.names, named=prepared.named)
        prior = torch.from_numpy(self._prior(schema, prepared.names, config.edge_prior)).float()
        self.fingerprint_, self.order_fingerprint_ = prepared.fingerprint, prepared.order_fingerprint
        self.seed_ = engine.gather(seed_of(self.random_state))[0]  # that of the first process
        self.columns_ = prepared.names
        self.set_aside_ = list(set_aside)
        self.n_rows_ = prepared.n_rows
        self.notices_ = describe_constants(schema)
        rngs = [torch.Generator().manual_seed(seed) for seed in member_seeds(self.seed_, config.n_members)]
        self.model_ = VislModel(schema, config, prior, rngs).to(find_device(self.device))
        return prepared.data

    def _prior(self, schema: Schema, names: list[Name], default: float) -> NDArray[np.float64]:
        """In the model's order of groups; an array is given in the order of `edge_probabilities_`."""
        groups = _groups_in_order(schema, names)
        prior = resolve_prior(groups, self.edge_prior, self.forbidden_edges, self.required_edges, default=default)
        order = [groups.index(group) for group in schema.groups]
        return prior[np.ix_(order, order)]

    def _config(self) -> Config:
        check_threshold(self.edge_threshold)
        return config_of(self.preset, {name: getattr(self, name) for name in PRESET_SETTINGS})

    def _finish(self, history: list[dict[str, float]]) -> None:
        """What users look at, in the order of their own columns."""
        self.history_ = pd.DataFrame(history)
        groups, columns = self.schema_.groups, self.schema_.columns
        self.kinds_ = {name: columns[self.schema_.position[name]].kind for name in self.columns_}
        self.groups_ = _groups_in_order(self.schema_, self.columns_)
        order = [groups.index(group) for group in self.groups_]
        with torch.no_grad():
            of_members = self.model_.edges.probabilities().cpu().double().numpy()  # (K, M, M)
            adjacency = self.model_.edges.adjacency().cpu().double().numpy().mean(0)
        probabilities, spread = of_members.mean(0), of_members.std(0)
        chosen = self.model_.edges.choose_graph(probabilities, self.edge_threshold)
        index, columns_ = (pd.Index(self.groups_, name=name) for name in ("from", "to"))
        self.edge_probabilities_, self.edge_spread_ = (
            pd.DataFrame(matrix[np.ix_(order, order)], index=index, columns=columns_)
            for matrix in (probabilities, spread)
        )
        self.graph_: nx.DiGraph = nx.DiGraph()
        self.graph_.add_nodes_from(self.groups_)
        for i, j in zip(*np.nonzero(chosen), strict=True):
            self.graph_.add_edge(
                groups[i],
                groups[j],
                probability=float(probabilities[i, j]),
                adjacency=float(adjacency[i, j]),
                spread=float(spread[i, j]),
            )

    def _print_epoch(self, record: dict[str, float]) -> None:
        every = {0: None, 1: max(1, self.model_.epochs // 10)}.get(self.verbose, 1)
        if every is not None and record["epoch"] % every == 0:
            print(f"stage {record['stage']:.0f}  epoch {record['epoch']:.0f}  loss {record['loss']:.4f}")

    # -- filling gaps

    def transform(self, X: Any) -> Any:
        """X with every gap filled by the mean, or the most probable level. Observed cells are untouched to the bit."""
        reading, asked = self._read_gaps(X)
        filled = self._filled(reading, asked, self._imputer().point(reading.encoded.table, asked))
        library = _get_output_config("transform", self)["dense"]
        # scikit-learn then puts our names on the columns, one after the other.
        return filled if library == "default" else arranged(filled, reading.names, self.columns_, library)

    def sample(self, X: Any, n_draws: int = 20) -> Any:
        """Multiple imputations: (draws, rows, columns) for an array, a list of frames for a frame."""
        reading, asked = self._read_gaps(X)
        draws = self._imputer(n_draws).sample(reading.encoded.table, asked)
        filled = [self._filled(reading, asked, codes) for codes in draws]
        return np.stack(filled) if isinstance(reading.X, np.ndarray) else filled

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:
        """(lower, upper): X with every gap filled by the ends of its central interval; observed cells as they are.

        Gaps of categorical columns stay gaps, since their levels have no order: see `predict_proba`.
        """
        level = check_share("level", level)
        reading, asked = self._read_gaps(X)
        imputer, table = self._imputer(), reading.encoded.table
        lower, upper = (imputer.quantile(table, asked, share) for share in ((1 - level) / 2, (1 + level) / 2))
        return self._filled(reading, asked, lower), self._filled(reading, asked, upper)

    @available_if(_has_discrete_columns)
    def predict_proba(self, X: Any) -> dict[Name, Any]:
        """For each discrete column a frame, rows as X, of its levels' probabilities; 1 for an observed level."""
        reading, asked = self._read_gaps(X)
        predicted = self._imputer().probabilities(reading.encoded.table, asked)
        values, observed = reading.encoded.table.to_dense()
        result = {}
        for name in self.columns_:
            j = self.schema_.position[name]
            column = self.schema_.columns[j]
            if column.kind != CONTINUOUS:
                shares = np.full((len(values), column.n_levels), np.nan)  # NaN: the cell holds a level never seen
                shares[observed[:, j]] = np.eye(column.n_levels)[values[observed[:, j], j].astype(int)]
                shares[asked.row[asked.column == j]] = predicted[asked.column == j, : column.n_levels]
                result[name] = probability_frame(reading.X, column, shares)
        return result

    def predict_cells(self, X: LongLog, rows: Any, columns: Any) -> pd.DataFrame:
        """The asked cells of a long log: value, and for discrete columns its probability. Known cells keep their value.

        rows, columns: ids, pair by pair.
        """
        check_is_fitted(self, "graph_")
        rows, columns = check_asked(X, rows, columns)
        return predict_log_cells(self._imputer(), self._read(X), rows, columns, round_integers=self.round_integers)

    def evaluate(self, X: Any, hide: float = 0.3, *, level: float = 0.9, random_state: int | None = 0) -> pd.DataFrame:
        """Hide a share of the observed cells of X, predict them from the rest, and score: per column and overall.

        Give rows that were not in `fit`: on training rows the scores flatter the model, and a warning says so.
        """
        level, hide, rng = check_share("level", level), check_share("hide", hide), generator_of(random_state)
        table = self._read(X).encoded.table
        if table.fingerprint(ordered=False) == self.fingerprint_:
            warn_user("these rows were used in fit, so the scores flatter the model: give held-out rows")
        shown = hide_cells(np.ones(table.n_cells, bool), hide, rng)
        if shown.all():
            raise InputError("no cell was hidden: give more rows, or a larger share to hide")
        return score_hidden(self._imputer(), table, ~shown, level=level, round_integers=self.round_integers)

    # -- keeping

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model as a folder of safetensors and JSON, whole or not at all."""
        check_is_fitted(self, "graph_")
        store.save(folder, self.model_, to_document(self), force=overwrite)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> VISL:
        """The model as it was saved, on this machine's device."""
        model, document, state = store.load(folder, find_device(device))
        if state is not None:
            raise InputError(f"{folder} is the checkpoint of an unfinished fit: go on with `visl fit ... --resume`")
        try:
            return from_document(cls, model, document, device)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"the model in {folder} is damaged ({error!r}): fit it again") from error

    def _save_checkpoint(self, folder: str | Path, state: TrainingState) -> None:
        """Where an interrupted `_fit` can go on."""
        store.save(folder, self.model_, to_document(self), state=state, force=True)

    def _go_on_from(self, checkpoint: str | Path) -> TrainingState:
        """Load a checkpoint into the model of this fit, after checking that it is of the same table and settings."""
        model, document, state = store.load(checkpoint, find_device(self.device))
        if state is None:
            raise InputError(f"{checkpoint} is a finished model, not a checkpoint: there is nothing to resume")
        learned, ours = document["learned"], self.model_
        same = (
            model.configs == ours.configs
            and model.schema == ours.schema
            and torch.equal(model.edges.prior, ours.edges.prior)
            and learned["order_fingerprint_"] == self.order_fingerprint_
            and (self.random_state is None or learned["seed_"] == self.seed_)
        )
        if not same:
            raise InputError(
                f"the checkpoint {checkpoint} is of another table or other settings: resume with those it was made "
                "with (a folder with --devices too, if it had that), or start afresh without --resume"
            )
        self.seed_, self.random_state, self.model_ = learned["seed_"], document["random_state"], model
        return state

    # -- reading tables

    @property
    def schema_(self) -> Schema:
        return self.model_.schema

    def _set_features(self, names: list[Name], *, named: bool) -> None:
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read(self, X: Any) -> Reading:
        """The table, its columns matched to the fitted ones, on the model's scale."""
        check_is_fitted(self, "graph_")
        X, source = read_table(self, X, reset=False)
        if isinstance(X, LongLog):
            source = match_log(source, X, self.columns_)
        else:
            source = match_table(source, self.columns_, has_names=not isinstance(X, np.ndarray))
        encoded = encode(source, self.schema_)
        for name, levels in encoded.unseen_levels(self.schema_).items():
            warn_user(
                f"column {name!r} holds {', '.join(map(repr, levels[:5]))}, never seen in fit: left as it is, and "
                "treated as not observed"
            )
        return Reading(X, source.names, encoded)

    def _read_gaps(self, X: Any) -> tuple[Reading, AskedCells]:
        if isinstance(X, LongLog):
            raise InputError("a long log has no cells to fill in place: use predict_cells (`visl impute --cells`)")
        reading = self._read(X)
        return reading, reading.gaps()

    def _imputer(self, n_draws: int | None = None) -> Imputer:
        check_is_fitted(self, "graph_")
        config = self.model_.config if n_draws is None else replace(self.model_.config, n_draws=n_draws)
        return Imputer(self.model_, n_draws=config.n_draws, seed=self.seed_)

    def _filled(self, reading: Reading, asked: AskedCells, codes: NDArray) -> Any:
        rounded = self.round_integers
        return fill(reading.X, reading.names, self.schema_, asked.row, asked.column, codes, round_integers=rounded)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _groups_in_order(schema: Schema, names: list[Name]) -> list[Name]:
    """In the order of the user's columns."""
    return list(dict.fromkeys(schema.columns[schema.position[name]].group for name in names))
