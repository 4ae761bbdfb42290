"""What users may give to an estimator, what it refuses in words, and what it warns of, once and at their own line."""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file

from visl import VISL, InputError, LongLog, long_from_frame
from visl.data.knowledge import resolve_prior
from visl.data.long import find_ids

SMALL: dict[str, Any] = {"epochs": 2, "latent_dim": 4, "n_draws": 5, "random_state": 0, "device": "cpu"}


def table(rows: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"b": rng.normal(size=rows), "a": rng.normal(size=rows), "n": rng.integers(0, 5, rows) * 1.0})
    return frame.mask(rng.random(frame.shape) < 0.2).assign(word=rng.choice(["x", "y", "z"], rows))


@pytest.fixture(scope="module")
def fitted() -> VISL:
    return VISL(**SMALL).fit(table())


def log_of(frame: pd.DataFrame, value: str = "value") -> LongLog:
    long = frame.reset_index().melt("index", var_name="item", value_name=value).dropna()
    return long_from_frame(long, "index", "item", value)


# -- learning


def test_an_array_of_priors_is_in_the_order_of_the_users_columns() -> None:
    frame = table()[["b", "a"]]
    model = VISL(**SMALL, edge_prior=np.array([[0, 1], [0, 0]])).fit(frame)
    assert model.edge_probabilities_.loc["b", "a"] == 1
    assert model.edge_probabilities_.loc["a", "b"] == 0


def test_an_open_prior_is_never_hard() -> None:
    prior = resolve_prior(["a", "b"], np.array([[0, 1e-300], [1 - 1e-12, 0]]), None, None, default=0.1)
    single = torch.from_numpy(prior).float()
    assert 0 < single[0, 1] < 1
    assert 0 < single[1, 0] < 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_fit_that_fails_leaves_the_old_one(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    model = VISL(**SMALL).fit(table())
    before = dict(vars(model))
    expected = model.transform(table())

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr("visl.estimator.train", fail)
    with pytest.raises(error):
        model.fit(table(seed=1)[["a", "b"]])
    assert vars(model) == before
    pd.testing.assert_frame_equal(model.transform(table()), expected)


def test_kinds_are_told_in_the_users_order(fitted: VISL) -> None:
    assert list(fitted.kinds_.items()) == [
        ("b", "continuous"),
        ("a", "continuous"),
        ("n", "continuous"),
        ("word", "categorical"),
    ]


def test_constant_discrete_columns_are_filled_with_the_level_seen() -> None:
    frame = table(8).assign(one=pd.array([1, None] * 4, dtype="Int64"), last=pd.array([3, None] * 4, dtype="Int64"))
    frame["yes"] = pd.Categorical(["y", None] * 4, categories=["n", "y"], ordered=True)
    frame["only"] = ["w", None] * 4
    constant = {"one": 1, "last": 3, "yes": "y", "only": "w"}
    model = VISL(**SMALL, kinds={"last": [1, 2, 3]}).fit(frame)
    for filled in (model.transform(frame), *model.sample(frame, 20), *model.predict_interval(frame)):
        for name, value in constant.items():
            assert set(filled[name]) == {value}
    for name, value in constant.items():
        assert (model.predict_proba(frame)[name][value] == 1).all()


# -- cells of a log


def test_known_cells_of_a_log_come_back_to_the_bit() -> None:
    frame = pd.DataFrame({"a": [0.1, 1 / 3, 12345.678], "same": [7.1, 7.1, np.nan]})
    model = VISL(**SMALL).fit(log_of(frame))
    later = log_of(pd.DataFrame({"a": [0.1, 1 / 3, 99.9], "same": [8.2, 7.1, np.nan]}))
    cells = model.predict_cells(later, [2, 1, 0, 0, 2], ["a", "a", "a", "same", "same"])
    assert cells["value"].tolist() == [99.9, 1 / 3, 0.1, 8.2, 7.1]


def test_unseen_levels_of_a_log_come_back() -> None:
    model = VISL(**SMALL).fit(log_of(pd.DataFrame({"w": ["x", "y", "z"], "v": ["p", "q", "r"]})))
    with pytest.warns(UserWarning, match="never seen"):
        cells = model.predict_cells(log_of(pd.DataFrame({"w": ["x", "other"], "v": ["p", None]})), [1, 0], ["w", "w"])
    assert cells["value"].tolist() == ["other", "x"]
    assert cells["probability"].tolist() == [1, 1]


def test_a_log_with_a_column_called_probability_is_refused() -> None:
    log = log_of(table()[["a", "b"]], value="probability")
    with pytest.raises(InputError, match="'probability'.*rename"):
        VISL(**SMALL).fit(log).predict_cells(log, [0], ["a"])


def test_ids_that_are_text_in_one_table_and_numbers_in_another() -> None:
    numbers, text = np.array([12, 7], object), np.array(["7", "x", "12"], object)
    assert find_ids(numbers, text).tolist() == [1, -1, 0]
    assert find_ids(text, numbers).tolist() == [2, 0]
    assert find_ids(np.array(["a", 7], object), np.array(["7", "a"], object)).tolist() == [1, 0]


# -- refusals


def fit(X: Any, **settings: Any) -> VISL:
    return VISL(**{**SMALL, **settings}).fit(X)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: fit(table(), edge_threshold=None), "edge_threshold is None"),
        (lambda: fit(table(), preset=[1]), r"preset is \[1\]"),
        (lambda: fit(table(), random_state=-1), "random_state is -1"),
        (lambda: fit(table(), random_state="x"), "random_state is 'x'"),
        (lambda: fit("t.csv"), "'t.csv': read the file first.*visl fit"),
        (lambda: fit(np.array([[1, "x"], [2, "y"]], object)), "column 1 of the array holds the text 'x' in row 0"),
        (lambda: fit(np.ones((3, 2), np.longdouble)), "long doubles.*float64"),
        (lambda: fit(np.ones((3, 2)) * 1j), "^Complex data not supported: give real numbers$"),
        (lambda: fit(pa.table([pa.array([1, 2])] * 2, names=["a", "a"])), "two columns are called 'a'"),
        (lambda: fit(pa.table({"d": pa.array([1, 2], pa.decimal128(5, 2))})), "'d' holds values of type Decimal"),
        (lambda: fit(table().set_axis(pd.date_range("2020", periods=4), axis=1)), "name columns by text or numbers"),
        (lambda: fit(pd.concat({"u": table()}, axis=1)), r"called \('u', 'b'\).*name columns by text"),
        (lambda: VISL.load(None), "None: give its path"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_fitted_is_refused_in_words(wrong: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda model: model.evaluate(table(seed=1), hide="0.3"), "hide is '0.3'"),
        (lambda model: model.evaluate(table(seed=1), level="0.9"), "level is '0.9'"),
        (lambda model: model.evaluate(table(seed=1), random_state=-1), "random_state is -1"),
        (lambda model: model.predict_interval(table(), level=None), "level is None"),
        (lambda model: model.predict_cells(table(), [0], ["a"]), "takes a long log.*long_from_frame"),
        (lambda model: model.predict_cells(log_of(table()[["a"]]), [0, 1], ["a"]), r"shapes \(2,\) and \(1,\)"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(fitted: VISL, ask: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(fitted)


def test_generators_and_masked_arrays_are_taken() -> None:
    X = table()[["a", "b"]].to_numpy()
    masked = np.ma.masked_invalid(X)
    masked.data[masked.mask] = -999
    rng = np.random.default_rng
    np.testing.assert_array_equal(
        fit(masked, random_state=rng(1)).transform(masked), fit(X, random_state=rng(1)).transform(X)
    )


def test_extreme_values_do_not_poison_a_row(fitted: VISL) -> None:
    row = pd.DataFrame({"b": [1e300], "a": [np.nan], "n": [-1e300], "word": [None]})
    filled = fitted.transform(row)
    assert np.isfinite(filled["a"][0])
    assert filled["b"][0] == 1e300
    assert filled["word"][0] in ("x", "y", "z")


# -- warnings


@pytest.mark.parametrize("method", ["transform", "sample", "predict_interval", "predict_proba", "evaluate"])
def test_warnings_come_once_and_point_here(fitted: VISL, method: str) -> None:
    strange = table(seed=3).assign(word="strange")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(fitted, method)(strange)
    assert [(warning.filename, "never seen" in str(warning.message)) for warning in caught] == [(__file__, True)]


@pytest.mark.parametrize(("fit_on", "given"), [("frame", "array"), ("array", "frame")])
def test_names_on_one_side_only_warn_once(fit_on: str, given: str) -> None:
    frame = table()[["a", "b"]]
    forms = {"frame": frame, "array": frame.to_numpy()}
    model = VISL(**SMALL).fit(forms[fit_on])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict_interval(forms[given])
    assert [(warning.filename, "feature names" in str(warning.message)) for warning in caught] == [(__file__, True)]


# -- scores


def test_coverage_is_of_the_interval_that_users_get() -> None:
    model = VISL(**SMALL, kinds={"n": "continuous"}).fit(table())
    later = table(200, seed=5)[["b", "a", "n", "word"]].assign(b=np.nan, a=np.nan, word=None)
    given = later["n"].notna()
    # All other cells are gaps: what is hidden is predicted from nothing, and has this interval.
    lower, upper = model.predict_interval(later.assign(n=np.nan), level=0.3)
    inside = (later["n"] >= lower["n"]) & (later["n"] <= upper["n"])
    scores = model.evaluate(later, hide=0.999, level=0.3).set_index("column")
    assert scores.loc["n", "cells"] >= 150
    assert scores.loc["n", "coverage"] == pytest.approx(inside[given].mean(), abs=0.02)


# -- keeping


def test_numpy_settings_can_be_saved(tmp_path: Any) -> None:
    settings = {
        "n_draws": np.int64(5),
        "n_members": np.int64(2),
        "learning_rate": np.float32(0.01),
        "edge_threshold": np.float32(0.5),
        "random_state": np.int64(3),
        "kinds": {"n": range(8), "word": np.array(["z", "x", "y"])},
    }
    model = VISL(**{**SMALL, **settings}).fit(table())
    model.save(tmp_path / "m")
    loaded = VISL.load(tmp_path / "m", device="cpu")
    assert (loaded.random_state, loaded.n_members) == (3, 2)
    assert loaded.kinds == {"n": [0, 1, 2, 3, 4, 5, 6, 7], "word": ["z", "x", "y"]}
    assert loaded.kinds_ == model.kinds_
    pd.testing.assert_frame_equal(loaded.transform(table()), model.transform(table()))


def change_json(folder: Any, change: Any) -> None:
    path = folder / "visl-model.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: change_json(folder, lambda content: content["schema"]["groups"].reverse()),
        lambda folder: change_json(folder, lambda content: content.update(version=-1)),
        lambda folder: change_json(folder, lambda content: content.update(version=True)),
        lambda folder: change_json(folder, lambda content: content.update(document=[])),
        lambda folder: save_file(
            {name: tensor * torch.nan for name, tensor in load_file(folder / "weights.safetensors").items()},
            folder / "weights.safetensors",
        ),
    ],
)
def test_damaged_folders_are_refused_in_words(fitted: VISL, tmp_path: Any, damage: Any) -> None:
    fitted.save(tmp_path / "m")
    damage(tmp_path / "m")
    with pytest.raises(InputError, match="damaged"):
        VISL.load(tmp_path / "m", device="cpu")


@pytest.mark.parametrize(
    ("version", "words"), [(1, "an earlier visl .format 1.*fit it again"), (99, "a later visl .*upgrade")]
)
def test_models_of_other_formats_are_refused_in_words(fitted: VISL, tmp_path: Any, version: int, words: str) -> None:
    fitted.save(tmp_path / "m")
    change_json(tmp_path / "m", lambda content: content.update(version=version))
    with pytest.raises(InputError, match=words):
        VISL.load(tmp_path / "m", device="cpu")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["configs"].append(content["configs"][0]),
        lambda content: content["configs"].clear(),
        lambda content: content.pop("configs"),
        lambda content: content["configs"][0].update(latent_dim=7),
    ],
)
def test_members_that_do_not_fit_the_weights_are_refused_in_words(fitted: VISL, tmp_path: Any, change: Any) -> None:
    fitted.save(tmp_path / "m")
    change_json(tmp_path / "m", change)
    with pytest.raises(InputError, match="damaged"):
        VISL.load(tmp_path / "m", device="cpu")


def test_polars_reads_as_pandas_does(fitted: VISL) -> None:
    filled = fitted.transform(pl.from_pandas(table()))
    assert filled["n"].to_list() == fitted.transform(table())["n"].to_list()
