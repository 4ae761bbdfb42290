"""VISL as users meet it: any frame in, the same kind of frame out; graph, draws, intervals, probabilities, scores."""

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from visl import VISL, InputError
from visl.training import Interrupted

SMALL: dict[str, Any] = {"epochs": 6, "latent_dim": 6, "n_draws": 10, "random_state": 0, "device": "cpu"}
GROUPS = {"body": ["height", "weight"], "views": ["vote", "size"]}


def mixed_frame(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Every kind, in the dtypes that users have, with 30 % gaps and an index of its own."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    frame = pd.DataFrame(
        {
            "height": a,
            "weight": (a * 3 + rng.normal(size=rows)).astype(np.float32),
            "visits": pd.array(np.round(a * 10).astype(int), dtype="Int64"),
            "smoker": pd.array((a > 0).astype(int), dtype="Int64"),
            "vote": np.where(a > 0.5, "red", np.where(a < -0.5, "blue", "green")),
            "size": pd.Categorical(np.where(a > 0, "L", "S"), categories=["S", "M", "L"], ordered=True),
            "flag": pd.array(a > 0.3, dtype="boolean"),
        },
        index=[f"p{i}" for i in range(rows)],
    )
    return frame.mask(pd.DataFrame(rng.random(frame.shape) < 0.3, index=frame.index, columns=frame.columns))


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    return mixed_frame()


@pytest.fixture(scope="session")
def fitted(frame: pd.DataFrame) -> VISL:
    return VISL(groups=GROUPS, **SMALL).fit(frame)


def as_polars(frame: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(frame)


def as_arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


# -- frames in, frames out


def test_kinds_are_inferred(fitted: VISL) -> None:
    assert {column.name: column.kind for column in fitted.schema_.columns} == {
        "height": "continuous",
        "weight": "continuous",
        "visits": "continuous",
        "smoker": "binary",
        "vote": "categorical",
        "size": "ordinal",
        "flag": "binary",
    }
    assert [column.levels for column in fitted.schema_.columns if column.name == "size"] == [("S", "M", "L")]


def test_pandas_comes_back_whole(fitted: VISL, frame: pd.DataFrame) -> None:
    filled = fitted.transform(frame)
    assert filled.notna().all().all()
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    pd.testing.assert_index_equal(filled.index, frame.index)
    for name in frame:
        seen = frame[name].notna()
        pd.testing.assert_series_equal(filled.loc[seen, name], frame.loc[seen, name])  # untouched to the bit
    assert frame.isna().any().all(), "the input itself must not change"


@pytest.mark.parametrize("convert", [as_polars, as_arrow])
def test_other_frames_come_back_as_themselves(fitted: VISL, frame: pd.DataFrame, convert: Any) -> None:
    given = convert(frame)
    filled = fitted.transform(given)
    assert type(filled) is type(given)
    assert filled.schema == given.schema
    expected = fitted.transform(frame)
    for name in frame:
        assert filled[name].to_pylist() if convert is as_arrow else filled[name].to_list() == expected[name].to_list()
    assert all(
        filled[name].null_count == 0 if convert is as_arrow else filled[name].null_count() == 0 for name in frame
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_come_back_as_arrays(dtype: type) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = np.nan
    model = VISL(**SMALL).fit(X)
    filled = model.transform(X)
    assert filled.dtype == dtype
    assert not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert model.sample(X, n_draws=4).shape == (4, 40, 3)
    assert list(model.edge_probabilities_.columns) == [0, 1, 2]


def test_pandas_object_columns_and_plain_booleans() -> None:
    frame = pd.DataFrame(
        {
            "word": pd.Series(["yes", None, "no", "yes"] * 5, dtype=object),
            "truth": pd.Series([True, None, False, True] * 5, dtype=object),
            "number": pd.Series([1.5, None, 2.5, 3.5] * 5, dtype=object),
        }
    ).set_axis(range(100, 120))
    filled = VISL(**SMALL).fit(frame).transform(frame)
    assert filled.notna().all().all()
    assert list(filled.dtypes) == [object] * 3
    assert set(filled["word"]) <= {"yes", "no"}
    assert all(isinstance(value, bool) for value in filled["truth"])
    pd.testing.assert_frame_equal(filled[frame["word"].notna()], frame[frame["word"].notna()])


def test_integer_columns_come_back_as_integers(frame: pd.DataFrame) -> None:
    whole = pd.DataFrame({"age": [20.0, np.nan, 35.0, 41.0, np.nan, 28.0], "x": [0.1, 0.2, np.nan, 0.4, 0.5, 0.6]})
    filled = VISL(**SMALL).fit_transform(whole)
    assert (filled["age"] == filled["age"].round()).all()
    assert not (filled["x"] == filled["x"].round()).all()
    kept = VISL(**SMALL, round_integers=False).fit_transform(whole)
    assert not (kept["age"] == kept["age"].round()).all()
    nullable = VISL(**SMALL, round_integers=False).fit_transform(frame[["visits", "height"]])
    assert nullable["visits"].dtype == "Float64", "unrounded numbers do not fit an integer column"


def test_no_gaps_nothing_changes() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.5, 3.0], "b": ["x", "y", "x"]})
    pd.testing.assert_frame_equal(VISL(**SMALL).fit_transform(frame), frame)


def test_rows_that_are_all_gaps_are_filled(fitted: VISL, frame: pd.DataFrame) -> None:
    empty = frame.iloc[:2].mask(pd.DataFrame(True, index=frame.index[:2], columns=frame.columns))
    filled = fitted.transform(empty)
    assert filled.notna().all().all()
    assert filled.iloc[0].equals(filled.iloc[1].rename(filled.index[0]))


# -- draws, intervals, probabilities


def test_samples_are_whole_tables_that_differ_in_the_gaps_only(fitted: VISL, frame: pd.DataFrame) -> None:
    draws = fitted.sample(frame, n_draws=5)
    assert len(draws) == 5
    for draw in draws:
        assert draw.notna().all().all()
        pd.testing.assert_series_equal(draw.dtypes, frame.dtypes)
        for name in frame:
            seen = frame[name].notna()
            pd.testing.assert_series_equal(draw.loc[seen, name], frame.loc[seen, name])
    gaps = frame["height"].isna()
    assert draws[0].loc[gaps, "height"].nunique() > 1
    assert not draws[0].loc[gaps, "height"].equals(draws[1].loc[gaps, "height"])


def test_intervals_hold_the_point_and_grow_with_the_level(fitted: VISL, frame: pd.DataFrame) -> None:
    point = fitted.transform(frame)
    lower, upper = fitted.predict_interval(frame, level=0.9)
    inner_lower, inner_upper = fitted.predict_interval(frame, level=0.5)
    gaps = frame["height"].isna()
    order = [lower, inner_lower, point, inner_upper, upper]
    heights = np.stack([part.loc[gaps, "height"] for part in order])
    assert (np.diff(heights, axis=0) >= 0).all()
    for part in (lower, upper):
        pd.testing.assert_series_equal(part.dtypes, frame.dtypes)
        pd.testing.assert_series_equal(part.loc[~gaps, "height"], frame.loc[~gaps, "height"])
    assert lower.loc[frame["vote"].isna(), "vote"].isna().all(), "levels without order have no interval"
    sizes = pd.Categorical(lower["size"], categories=["S", "M", "L"], ordered=True)
    assert (sizes <= pd.Categorical(upper["size"], categories=["S", "M", "L"], ordered=True)).all()


def test_probabilities_sum_to_one_and_agree_with_transform(fitted: VISL, frame: pd.DataFrame) -> None:
    shares, filled = fitted.predict_proba(frame), fitted.transform(frame)
    assert list(shares) == ["smoker", "vote", "size", "flag"]
    assert list(shares["vote"].columns) == ["blue", "green", "red"]
    for name, part in shares.items():
        np.testing.assert_allclose(part.sum(axis=1), 1, atol=1e-5)
        assert list(part.idxmax(axis=1)) == list(filled[name])
        seen = frame[name].notna()
        assert (part[seen].max(axis=1) == 1).all()
    assert type(fitted.predict_proba(as_polars(frame))["vote"]) is pl.DataFrame


def test_predict_proba_is_only_there_for_discrete_columns(fitted: VISL) -> None:
    assert hasattr(fitted, "predict_proba")
    assert not hasattr(VISL(), "predict_proba")
    assert not hasattr(VISL(**SMALL).fit(np.random.default_rng(0).normal(size=(10, 2))), "predict_proba")


# -- invariances


def test_the_order_of_columns_does_not_matter(fitted: VISL, frame: pd.DataFrame) -> None:
    backwards = frame[frame.columns[::-1]]
    expected = fitted.transform(frame)
    pd.testing.assert_frame_equal(fitted.transform(backwards)[list(frame)], expected)
    again = VISL(groups=GROUPS, **SMALL).fit(backwards)
    pd.testing.assert_frame_equal(again.transform(frame), expected)
    same = again.edge_probabilities_.loc[fitted.groups_, fitted.groups_]
    pd.testing.assert_frame_equal(same, fitted.edge_probabilities_)


def test_a_row_does_not_depend_on_the_others(fitted: VISL, frame: pd.DataFrame) -> None:
    whole, draws = fitted.transform(frame), fitted.sample(frame, n_draws=3)
    shuffled = frame.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(fitted.transform(shuffled).loc[frame.index], whole)
    one = frame.iloc[[17]]
    pd.testing.assert_frame_equal(fitted.transform(one), whole.iloc[[17]])
    pd.testing.assert_frame_equal(fitted.sample(one, n_draws=3)[2], draws[2].iloc[[17]])


def test_the_same_seed_gives_the_same_result(fitted: VISL, frame: pd.DataFrame) -> None:
    again = VISL(groups=GROUPS, **SMALL).fit(frame)
    pd.testing.assert_frame_equal(again.transform(frame), fitted.transform(frame))
    other = VISL(groups=GROUPS, **{**SMALL, "random_state": 1}).fit(frame)
    assert not other.edge_probabilities_.equals(fitted.edge_probabilities_)


def test_global_random_state_is_left_alone(frame: pd.DataFrame) -> None:
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    VISL(**SMALL).fit(frame).sample(frame, n_draws=2)
    assert (np.random.get_state()[1] == before[0]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


# -- the graph


def test_graph_and_probabilities_agree(fitted: VISL) -> None:
    table = fitted.edge_probabilities_
    assert list(table.index) == list(table.columns) == ["body", "visits", "smoker", "views", "flag"]
    assert (np.diag(table) == 0).all()
    assert list(fitted.graph_.nodes) == list(table.index)
    loose = clone(fitted).set_params(edge_threshold=0.2).fit(mixed_frame())
    assert loose.graph_.number_of_edges() > 0
    assert nx.is_directed_acyclic_graph(loose.graph_)
    for start, end, attributes in loose.graph_.edges(data=True):
        p, q = loose.edge_probabilities_.loc[start, end], loose.edge_probabilities_.loc[end, start]
        assert attributes["probability"] == pytest.approx(p)
        assert attributes["adjacency"] == pytest.approx(1 - (1 - p) * (1 - q), abs=1e-6)
        assert p > 0.2


def test_hard_knowledge_is_kept(frame: pd.DataFrame) -> None:
    model = VISL(
        groups=GROUPS,
        **SMALL,
        required_edges=[("flag", "body")],
        forbidden_edges=[("body", "flag"), ("visits", "views")],
    ).fit(frame)
    assert model.edge_probabilities_.loc["flag", "body"] == 1
    assert model.edge_probabilities_.loc["body", "flag"] == 0
    assert model.edge_probabilities_.loc["visits", "views"] == 0
    assert model.graph_.has_edge("flag", "body")
    open_edges = model.edge_probabilities_.to_numpy()
    assert ((open_edges > 0) & (open_edges < 1)).sum() == 20 - 3


def test_history_holds_every_term_of_both_stages(fitted: VISL) -> None:
    history = fitted.history_
    assert list(history["stage"]) == [1, 1, 1, 2, 2, 2]
    assert {"loss", "nll", "kl_latent", "kl_edges", "acyclicity", "acyclicity_weight"} <= set(history)
    assert np.isfinite(history.to_numpy()).all()
    # loss = nll + 1e-5 KL(Z) + (KL(G) + weight R) / N, with N = 120 rows
    expected = (
        history["nll"]
        + 1e-5 * history["kl_latent"]
        + (history["kl_edges"] + history["acyclicity_weight"] * history["acyclicity"]) / 120
    )
    np.testing.assert_allclose(history["loss"], expected, rtol=1e-5)
    assert history["kl_edges"].iloc[3:].nunique() == 1, "the edge posterior is frozen in stage 2"


# -- scikit-learn's ways


def test_a_preset_says_how_many_members_there_are():
    values = np.random.default_rng(0).normal(size=(30, 2))
    two = {"preset": "default", "settings": {"n_members": 2, "epoch_steps": 1}}
    assert VISL(preset=two, epochs=2, random_state=0).fit(values).model_.n_members == 2
    assert VISL(preset=two, n_members=1, epochs=2, random_state=0).fit(values).model_.n_members == 1


def test_pipeline_clone_and_set_output(frame: pd.DataFrame) -> None:
    numbers = frame[["height", "weight"]].astype(float)
    filled = make_pipeline(StandardScaler(), VISL(**SMALL)).fit_transform(numbers)
    assert filled.shape == (120, 2)
    assert not np.isnan(filled).any()
    model = VISL(**SMALL).set_output(transform="pandas").fit(numbers)
    assert list(model.transform(numbers.to_numpy()).columns) == ["height", "weight"]
    assert list(model.get_feature_names_out()) == ["height", "weight"]
    assert clone(VISL(groups=GROUPS, epochs=3)).get_params() == VISL(groups=GROUPS, epochs=3).get_params()


# -- scores


def test_evaluate_scores_every_column(fitted: VISL) -> None:
    scores = fitted.evaluate(mixed_frame(seed=9)).set_index("column")
    assert list(scores.index)[-1] == "(all)"
    assert set(scores.index) == {*GROUPS["body"], *GROUPS["views"], "visits", "smoker", "flag", "(all)"}
    assert scores.loc["(all)", "cells"] == scores["cells"].iloc[:-1].sum()
    assert scores.loc["height", ["rmse", "rmse_scaled", "coverage"]].notna().all()
    assert scores.loc["vote", ["accuracy"]].notna().all()
    assert scores.loc["vote", ["rmse", "auroc", "coverage"]].isna().all()
    span = mixed_frame()["height"].max() - mixed_frame()["height"].min()
    assert scores.loc["height", "rmse"] == pytest.approx(span * scores.loc["height", "rmse_scaled"], rel=1e-6)


def test_evaluate_warns_on_the_training_rows(fitted: VISL, frame: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="flatter"):
        fitted.evaluate(frame.sample(frac=1, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.evaluate(mixed_frame(seed=9))


# -- members

OF_ENSEMBLE = {"groups": {"body": ["height", "weight", "visits"], "views": ["vote", "size"]}, "edge_threshold": 0.2}


@pytest.fixture(scope="session")
def ensemble(frame: pd.DataFrame) -> VISL:
    return VISL(n_members=3, **OF_ENSEMBLE, **SMALL).fit(frame)


def of_members(model: VISL) -> np.ndarray:
    """(K, M, M) in the order of `edge_probabilities_`."""
    order = [model.schema_.groups.index(group) for group in model.groups_]
    probabilities = [member.edges.probabilities()[0].detach().double().numpy() for member in model.model_.members()]
    return np.stack(probabilities)[:, order][:, :, order]


def test_edges_of_an_ensemble_are_the_members_means_with_their_spread(ensemble: VISL) -> None:
    expected = of_members(ensemble)
    assert expected.shape == (3, 4, 4)
    np.testing.assert_allclose(ensemble.edge_probabilities_, expected.mean(0), rtol=1e-5)
    np.testing.assert_allclose(ensemble.edge_spread_, expected.std(0), rtol=1e-4, atol=1e-7)
    assert list(ensemble.edge_spread_.index) == list(ensemble.edge_spread_.columns) == ensemble.groups_
    assert (ensemble.edge_spread_.to_numpy()[~np.eye(4, dtype=bool)] > 0).all()
    assert (np.diag(ensemble.edge_spread_) == 0).all()


def test_the_graph_of_an_ensemble_carries_the_spread(ensemble: VISL) -> None:
    graph, members = ensemble.graph_, of_members(ensemble)
    assert graph.number_of_edges() > 0
    assert nx.is_directed_acyclic_graph(graph)
    absent = 1 - members
    either = 1 - absent * absent.transpose(0, 2, 1)
    for start, end, attributes in graph.edges(data=True):
        i, j = ensemble.groups_.index(start), ensemble.groups_.index(end)
        assert attributes["probability"] == pytest.approx(members[:, i, j].mean())
        assert attributes["spread"] == pytest.approx(members[:, i, j].std(), rel=1e-4)
        assert attributes["adjacency"] == pytest.approx(either[:, i, j].mean(), abs=1e-6)


def test_a_single_model_is_the_first_member_and_has_no_spread(ensemble: VISL, frame: pd.DataFrame) -> None:
    alone = VISL(**OF_ENSEMBLE, **SMALL).fit(frame)
    np.testing.assert_allclose(alone.edge_probabilities_, of_members(ensemble)[0], rtol=1e-3, atol=1e-5)
    assert (alone.edge_spread_ == 0).all().all()
    assert {attributes["spread"] for *_, attributes in alone.graph_.edges(data=True)} == {0.0}
    assert "loss_spread" not in alone.history_
    assert (ensemble.history_["loss_spread"] > 0).all()


def test_an_ensemble_fills_a_table(ensemble: VISL, frame: pd.DataFrame) -> None:
    filled, shares = ensemble.transform(frame), ensemble.predict_proba(frame)
    assert filled.notna().all().all()
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    for name, part in shares.items():
        np.testing.assert_allclose(part.sum(axis=1), 1, atol=1e-5)
        assert list(part.idxmax(axis=1)) == list(filled[name])
    for n_draws in (2, 3, 4):  # also fewer than members
        assert len(ensemble.sample(frame, n_draws)) == n_draws
    lower, upper = ensemble.predict_interval(frame)
    gaps = frame["height"].isna()
    assert (lower.loc[gaps, "height"] < filled.loc[gaps, "height"]).all()
    assert (filled.loc[gaps, "height"] < upper.loc[gaps, "height"]).all()


def test_a_saved_ensemble_gives_the_identical_answer(ensemble: VISL, frame: pd.DataFrame, tmp_path: Any) -> None:
    ensemble.save(tmp_path / "model")
    loaded = VISL.load(tmp_path / "model", device="cpu")
    assert loaded.n_members == loaded.model_.n_members == 3
    pd.testing.assert_frame_equal(loaded.transform(frame), ensemble.transform(frame))
    pd.testing.assert_frame_equal(loaded.sample(frame, 4)[3], ensemble.sample(frame, 4)[3])
    pd.testing.assert_frame_equal(loaded.edge_probabilities_, ensemble.edge_probabilities_)
    pd.testing.assert_frame_equal(loaded.edge_spread_, ensemble.edge_spread_)
    pd.testing.assert_frame_equal(loaded.history_, ensemble.history_)
    assert nx.utils.graphs_equal(loaded.graph_, ensemble.graph_)


def test_an_ensemble_can_be_cloned_and_fitted_again(ensemble: VISL, frame: pd.DataFrame) -> None:
    again = clone(ensemble)
    assert again.get_params() == ensemble.get_params()
    assert again.n_members == 3
    again.set_params(n_members=2, epochs=2).fit(frame)
    assert again.model_.n_members == 2


def test_a_stopped_ensemble_goes_on_where_it_was(frame: pd.DataFrame, tmp_path: Any) -> None:
    settings = {**OF_ENSEMBLE, **SMALL, "epochs": 2, "n_members": 2}
    whole, stopped, resumed = (VISL(**settings) for _ in range(3))
    whole.fit(frame)
    with pytest.raises(Interrupted) as interrupted:
        stopped._fit(frame, on_epoch=print, should_stop=lambda state: (state.epoch, state.step) == (1, 4))
    stopped._save_checkpoint(tmp_path / "checkpoint", interrupted.value.state)
    for other in ({"n_members": 3}, {"n_members": 1}, {"random_state": 1}):
        with pytest.raises(InputError, match="other settings"):
            VISL(**{**settings, **other})._fit(frame, on_epoch=print, checkpoint=tmp_path / "checkpoint")
    resumed._fit(frame, on_epoch=print, checkpoint=tmp_path / "checkpoint")
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], tensor), name
    pd.testing.assert_frame_equal(resumed.history_, whole.history_)


# -- keeping


def test_saved_model_gives_the_identical_answer(fitted: VISL, frame: pd.DataFrame, tmp_path: Any) -> None:
    fitted.save(tmp_path / "model")
    files = sorted((tmp_path / "model").iterdir())
    assert [path.name for path in files] == ["visl-model.json", "weights.safetensors"]
    assert files[0].stat().st_mode == files[1].stat().st_mode, "who may read one may read the other"
    loaded = VISL.load(tmp_path / "model", device="cpu")
    pd.testing.assert_frame_equal(loaded.transform(frame), fitted.transform(frame))
    pd.testing.assert_frame_equal(loaded.sample(frame, 2)[1], fitted.sample(frame, 2)[1])
    pd.testing.assert_frame_equal(loaded.edge_probabilities_, fitted.edge_probabilities_)
    pd.testing.assert_frame_equal(loaded.history_, fitted.history_)
    assert nx.utils.graphs_equal(loaded.graph_, fitted.graph_)
    assert list(loaded.feature_names_in_) == list(fitted.feature_names_in_)
    pd.testing.assert_frame_equal(clone(loaded).fit(frame).transform(frame), fitted.transform(frame))
    with pytest.raises(InputError, match="exists"):
        fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)


def test_saved_prior_knowledge_comes_back(frame: pd.DataFrame, tmp_path: Any) -> None:
    model = VISL(**SMALL, forbidden_edges=[("flag", "vote")], edge_prior=0.1).fit(frame)
    model.save(tmp_path / "m")
    again = clone(VISL.load(tmp_path / "m", device="cpu")).fit(frame)
    pd.testing.assert_frame_equal(again.edge_probabilities_, model.edge_probabilities_)


# -- bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "papper"}, "'papper'.*'paper-eedi'"),
        ({"epochs": 0}, "epochs is 0.*at least 1"),
        ({"n_members": 0}, "n_members is 0: give a whole number of at least 1"),
        ({"n_members": 2.5}, "n_members is 2.5: give a whole number of at least 1"),
        ({"n_members": True}, "n_members is True: give a whole number of at least 1"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"edge_threshold": 1.5}, "edge_threshold is 1.5"),
        ({"device": "gpu7"}, "device 'gpu7'.*'cpu'"),
        ({"kinds": {"hight": "binary"}}, "'hight'"),
        ({"kinds": {"height": "real"}}, "'height'.*'real'.*continuous"),
        ({"kinds": {"visits": "binary"}}, "'visits' is binary.*third value"),
        ({"kinds": {"vote": "continuous"}}, "'vote' is continuous.*'(red|green|blue)'"),
        ({"kinds": {"vote": "ordinal"}}, "'vote' is ordinal.*lowest to highest"),
        ({"kinds": {"vote": ["red", "blue"]}}, "'vote' holds 'green'"),
        ({"groups": {"body": ["height", "wight"]}}, "'wight'"),
        ({"edge_prior": 1.5}, "1.5"),
        ({"required_edges": [("flag", "vote"), ("vote", "flag")]}, "flag.*vote"),
    ],
)
def test_bad_settings_are_named(frame: pd.DataFrame, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=f"(?s){words}"):
        VISL(**{**SMALL, **change}).fit(frame)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("empty", [np.nan] * 6, "'empty' has no observed value"),
        ("inf", [1.0, 2.0, np.inf, 3.0, 4.0, 5.0], "'inf' holds inf in row 2"),
        ("mixed", ["1", "2", "three", "4", "5", "6"], "'mixed' holds the text 'three' in row 2 among numbers"),
        ("commas", ["1,5", "2,5", "3,25", "4", "5,5", "6,5"], "'commas' holds numbers with decimal commas.*points"),
        ("both", [1, "two", 3, 4, 5, 6], "'both' mixes text and numbers"),
        ("when", pd.date_range("2020-01-01", periods=6), "'when' holds values of type Datetime"),
        ("lists", [[1]] * 6, "'lists' holds"),
    ],
)
def test_bad_columns_are_named(column: str, values: Any, words: str) -> None:
    frame = pd.DataFrame({"fine": np.arange(6.0), column: values})
    with pytest.raises(InputError, match=words):
        VISL(**SMALL).fit(frame)


def test_too_many_levels_ask_for_the_kind() -> None:
    frame = pd.DataFrame({"name": [f"person {i}" for i in range(60)], "x": np.arange(60.0)})
    with pytest.raises(InputError, match="'name' has 60 different values.*leave it out.*categorical"):
        VISL(**SMALL).fit(frame)
    assert VISL(**SMALL, kinds={"name": "categorical"}).fit(frame).schema_.columns[0].n_levels == 60


def test_tables_that_are_no_tables(frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="at least 2"):
        VISL(**SMALL).fit(frame.iloc[:1])
    with pytest.raises(InputError, match="no columns"):
        VISL(**SMALL).fit(frame[[]])
    with pytest.raises(InputError, match="two columns are called 'a'"):
        VISL(**SMALL).fit(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    with pytest.raises(InputError, match="collect it first"):
        VISL(**SMALL).fit(as_polars(frame).lazy())


def test_columns_at_transform_are_checked(fitted: VISL, frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="missing: 'flag'"):
        fitted.transform(frame.drop(columns="flag"))
    with pytest.raises(InputError, match="unseen at fit time: 'extra'"):
        fitted.transform(frame.assign(extra=1.0))
    with pytest.raises(InputError, match="'smoker' is binary.*holds 2"):
        fitted.transform(frame.assign(smoker=2))


def test_unseen_levels_are_left_alone_with_a_warning(fitted: VISL, frame: pd.DataFrame) -> None:
    strange = frame.assign(vote=frame["vote"].where(frame["vote"] != "red", "purple"))
    with pytest.warns(UserWarning, match="'vote' holds 'purple', never seen in fit"):
        filled = fitted.transform(strange)
    assert (filled["vote"] == "purple").sum() == (strange["vote"] == "purple").sum() > 0
    blank = fitted.transform(frame.assign(vote=frame["vote"].where(frame["vote"] != "red")))
    others = [name for name in frame if name != "vote"]
    pd.testing.assert_frame_equal(filled[others], blank[others])


def test_constant_columns_are_handled_with_a_notice() -> None:
    frame = pd.DataFrame({"same": [3.5, np.nan, 3.5, 3.5], "word": ["a", "a", None, "a"], "x": [1.0, 2.0, 3.5, 4.0]})
    model = VISL(**SMALL).fit(frame)
    filled = model.transform(frame)
    assert list(filled["same"]) == [3.5] * 4
    assert list(filled["word"]) == ["a"] * 4
    assert [notice.split("'")[1] for notice in model.notices_] == ["same", "word"]


def test_an_unfitted_model_says_so() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        VISL().transform(np.zeros((2, 2)))


def test_an_ensemble_takes_a_table_whose_last_column_is_a_number() -> None:
    model = VISL(groups=GROUPS, n_members=2, **{**SMALL, "epochs": 2}).fit(mixed_frame())
    assert model.schema_.columns[-1].kind == "continuous"
    assert np.isfinite(model.history_["loss"]).all()
