"""The search finds settings that learn, never sees what it is scored on, and can be left and taken up again."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from visl import VISL, InputError, long_from_frame
from visl.config import PRESETS
from visl.data.rows import take_rows
from visl.schema import CONTINUOUS, Column, Schema
from visl.settings import config_of, kept_preset
from visl.table import Table
from visl.training import Interrupted
from visl.tune import held_out
from visl.tune.space import PAPER_SPACE, Choices, Range, check_space, parse_space, parse_vary

optuna = pytest.importorskip("optuna")

from visl.tune import Tuner, Watcher, tune  # noqa: E402
from visl.tune.study import SamplerByNumber, sqlite_url  # noqa: E402

RATES = {"learning_rate": Choices((1e-9, 1e-2))}
DIMS = {"latent_dim": Range(2, 5)}


def numbers(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Four columns that say nearly the same, a fifth of the cells missing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, 4))
    return pd.DataFrame(values, columns=list("abcd")).mask(rng.random((n, 4)) < 0.2)


def tiny(**settings) -> VISL:
    return VISL(**{"epochs": 2, "batch_size": 30, "latent_dim": 3, "n_draws": 3, "random_state": 0, **settings})


def numbers_of(tuned) -> list[int]:
    return tuned.trials.loc[tuned.trials["state"].isin(["finished", "pruned"]), "trial"].tolist()


# -- the space


def test_papers_grid():
    assert PAPER_SPACE["latent_dim"].values == (5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
    assert PAPER_SPACE["message_steps"].values == (3, 5, 8, 10, 12, 14, 16, 18, 20)
    assert PAPER_SPACE["learning_rate"].values == (1e-4, 1e-3, 1e-2)


@pytest.mark.parametrize(
    ("text", "name", "varied", "log"),
    [
        ("learning_rate=1e-4..1e-2", "learning_rate", Range(1e-4, 1e-2), True),
        ("max_drop_rate=0.5..1", "max_drop_rate", Range(0.5, 1.0), False),
        ("acyclicity_weight=0..50", "acyclicity_weight", Range(0.0, 50.0), False),
        ("latent_dim=4..64", "latent_dim", Range(4, 64), True),
        ("latent_dim=8, 16", "latent_dim", Choices((8, 16)), None),
        ("keep_own=true,false", "keep_own", Choices((True, False)), None),
        ("edge_learning_rate=none,0.03", "edge_learning_rate", Choices((None, 0.03)), None),
        ("acyclicity_on=sample,probabilities", "acyclicity_on", Choices(("sample", "probabilities")), None),
    ],
)
def test_vary_is_read_in_the_settings_own_type(text, name, varied, log):
    assert parse_vary(text) == (name, varied)
    assert log is None or varied.log is log
    check_space({name: varied})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning_rate", "NAME=LOW..HIGH"),
        ("learningrate=1,2", "unknown setting 'learningrate'.*learning_rate"),
        ("latent_dim=2.5,3", "latent_dim has the value '2.5'.*int"),
        ("keep_own=true..false", "a range is of numbers"),
        ("latent_dim=8..4", "from 8 to 4"),
        ("latent_dim=8", "at least two"),
        ("latent_dim=0,8", "latent_dim is 0"),
    ],
)
def test_bad_vary_is_named(text, words):
    with pytest.raises(InputError, match=words):
        check_space(dict([parse_vary(text)]))


def test_a_setting_is_varied_once_and_not_fixed_too():
    with pytest.raises(InputError, match="varied twice"):
        parse_space(["latent_dim=4,8", "latent_dim=4..8"])
    with pytest.raises(InputError, match="latent_dim is both varied and given"):
        Tuner(tiny(), numbers(), vary=DIMS)
    assert set(Tuner(tiny(), numbers()).space) == {
        "message_steps",
        "learning_rate",
    }  # of the paper's, latent_dim is given


# -- what is held out


def test_rows_of_every_kind_of_table():
    frame, rows = numbers(6), np.array([1, 4])
    assert take_rows(frame, rows).equals(frame.iloc[[1, 4]])
    np.testing.assert_array_equal(take_rows(frame.to_numpy(), rows), frame.to_numpy()[[1, 4]])
    log = long_from_frame(pd.DataFrame({"r": list("xyyz"), "c": [1, 1, 2, 2], "v": [0, 1, 1, 0]}), "r", "c", "v")
    taken = take_rows(log, np.array([1, 2]))
    assert taken.row_ids.tolist() == ["y", "z"]
    assert list(zip(taken.row, taken.column, taken.values, strict=True)) == [(0, 0, 1), (0, 1, 1), (1, 1, 0)]
    assert taken.column_ids.tolist() == [1, 2]


def test_a_row_that_alone_has_a_level_stays_in_training():
    rng = np.random.default_rng(0)
    codes = np.zeros((20, 2))
    codes[7, 0] = 2  # the only one of its level
    observed = np.ones((20, 2), bool)
    observed[:, 1] = np.arange(20) == 3  # the only one of its column
    table = Table.from_dense(codes, observed)
    schema = Schema(
        (Column("a", "categorical", "a", levels=("x", "y", "z")), Column("b", CONTINUOUS, "b")), ("a", "b"), False
    )
    for _ in range(20):
        rows = held_out.choose_rows(table, schema, 0.6, rng)
        assert not {3, 7} & set(rows)
        assert 10 <= len(rows) <= 12


class Oracle:
    """Predicts what it is told."""

    def __init__(self, point):
        self.told = np.array(point, np.float32)

    def point(self, table, asked):
        return self.told.copy()


def test_metrics_by_hand():
    # Two rows of a number (scaled) and a level; all four cells hidden, row by row.
    table = Table.from_dense(np.array([[0.5, 1], [0.1, 0]]), np.ones((2, 2), bool))
    held = held_out.HeldOut(table, np.ones(4, bool), np.array([True, False]), np.array([0.2, 1.0]))
    imputer = Oracle([0.9, 1, 0.4, 1])  # errors 0.4 and 0.3; right, wrong
    rmse = ((0.16 + 0.09) / 2) ** 0.5
    assert held.score(imputer, "accuracy") == 0.5
    assert held.score(imputer, "rmse") == pytest.approx(rmse)
    assert held.score(imputer, "error") == pytest.approx((rmse / 0.2 + 0.5) / 2)
    assert held_out.default_metric(held) == "error"


def test_spread_is_that_of_the_training_rows():
    training = Table.from_dense(np.array([[0.0], [1.0]]), np.ones((2, 1), bool))
    held = Table.from_dense(np.full((9, 1), 0.3), np.ones((9, 1), bool))
    schema = Schema((Column("a", CONTINUOUS, "a"),), ("a",), False)
    found = held_out.hold_out(held, training, schema, 0.5, np.random.default_rng(0))
    assert found.spread.tolist() == [0.5]


def test_hidden_cells_never_reach_training_or_predictions(monkeypatch):
    """Other values in the hidden cells, and nothing but the score changes."""
    seen: list[list[object]] = []

    class Losses(Watcher):
        def on_epoch(self, record):
            seen[-1].append(record["loss"])

    plain_score = held_out.HeldOut.score

    def score(self, imputer, metric):
        seen[-1].append(imputer.point(self.shown, self.asked).tolist())
        return plain_score(self, imputer, metric)

    monkeypatch.setattr(held_out.HeldOut, "score", score)
    table, scores = numbers(), []
    for _ in range(2):
        seen.append([])
        tuner = Tuner(tiny(latent_dim=None, epochs=3), table, vary=DIMS, validation=0.3)
        scores.append(tuner.run(1, watcher=Losses()).best["score"])
        assert len(tuner.training) == len(table) - len(tuner.rows) == 42
        table = table.copy()
        asked = tuner.held_out.asked
        assert len(asked) > 5
        for row, column in zip(tuner.rows[asked.row], asked.column, strict=True):
            assert not np.isnan(table.iloc[row, column])
            table.iloc[row, column] += 0.5
    assert len(seen[0]) > 4
    assert seen[0] == seen[1]
    assert scores[0] != scores[1]


def test_scoring_on_the_way_leaves_training_alone():
    records = []

    class Records(Watcher):
        def on_epoch(self, record):
            records.append(record)

    tuner = Tuner(tiny(latent_dim=None, epochs=4), numbers(), vary=DIMS)
    tuned = tuner.run(1, watcher=Records())
    alone = VISL(preset=tuned.best, random_state=0, kinds=tuner.estimator.kinds).fit(tuner.training)
    assert alone.history_["loss"].tolist() == [record["loss"] for record in records]


# -- the search


def test_the_rate_that_learns_wins():
    """Where networks fill gaps: exact fits, which would fill them better, learn at any rate."""
    networks = {"preset": "default", "settings": {"polishing_sweeps": 0}}
    learner = tiny(preset=networks, epochs=8, batch_size=10, latent_dim=16)
    tuned = tune(learner, numbers(), 4, vary=RATES, validation=0.3)
    assert set(tuned.trials["learning_rate"]) == {1e-9, 1e-2}
    assert tuned.best["settings"]["learning_rate"] == 1e-2
    assert tuned.best["metric"] == "rmse"
    finished = tuned.trials[tuned.trials["state"] == "finished"]
    by_rate = finished.groupby("learning_rate")["score"].min()
    assert by_rate[1e-2] < 0.9 * by_rate[1e-9]


def test_a_rate_that_diverges_is_not_the_end():
    tuned = tune(tiny(), numbers(), 3, vary={"learning_rate": Choices((1e30, 1e-2))})
    assert numbers_of(tuned) == [0, 1, 2]
    assert tuned.best["settings"]["learning_rate"] == 1e-2
    diverged = tuned.trials[tuned.trials["learning_rate"] == 1e30]
    assert len(diverged)
    assert diverged["reason"].str.contains("diverged").all()


def test_a_study_goes_on_as_if_it_had_not_been_left(tmp_path):
    estimator, table, vary = tiny(latent_dim=None), numbers(), {**DIMS, **RATES}
    whole = Tuner(estimator, table, vary=vary).run(3)
    url = sqlite_url(tmp_path / "study.db")
    assert numbers_of(Tuner(estimator, table, vary=vary).open(url).run(1)) == [0]
    resumed = Tuner(estimator, table, vary=vary).open(url).run(3)
    assert numbers_of(resumed) == [0, 1, 2]
    settings = ["latent_dim", "learning_rate", "score"]
    assert resumed.trials[settings].equals(whole.trials[settings])
    assert resumed.best == whole.best

    for changed, words in (
        ({"estimator": tiny(latent_dim=None, epochs=3)}, r"epochs 2 \(now 3\)"),
        ({"table": numbers(seed=1)}, "another table"),
        ({"table": table.rename(columns={"a": "z"})}, "another table"),
        ({"estimator": tiny(latent_dim=None, forbidden_edges=[("a", "b")])}, "knowledge of edges"),
        ({"vary": DIMS}, "vary"),
    ):
        now = {"estimator": estimator, "table": table, "vary": vary, **changed}
        with pytest.raises(InputError, match=words):
            Tuner(now["estimator"], now["table"], vary=now["vary"]).open(url).run(3)
    assert numbers_of(Tuner(estimator, table, vary=DIMS | RATES).open(url, afresh=True).run(2)) == [0, 1]


def test_workers_share_one_study(tmp_path):
    url, seen = sqlite_url(tmp_path / "study.db"), []

    class Numbers(Watcher):
        def on_trial(self, number, settings, epochs):
            seen.append(number)

    def work():
        Tuner(tiny(latent_dim=None), numbers(), vary=DIMS).open(url).run(4, Numbers())

    with ThreadPoolExecutor(2) as pool:
        for worker in [pool.submit(work) for _ in range(2)]:
            worker.result()
    assert len(seen) == len(set(seen)) == 4
    tuned = Tuner(tiny(latent_dim=None), numbers(), vary=DIMS).open(url).run(4)
    assert len(numbers_of(tuned)) == 4
    assert tuned.best["trials"] == 4


def test_draws_follow_from_the_number_of_the_trial():
    def suggested(seed: int) -> list[tuple[float, float]]:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=SamplerByNumber(seed))
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1), n_trials=3)
        return [(trial.params["x"], trial.params["y"]) for trial in study.trials]

    first = suggested(0)
    assert first == suggested(0)
    assert first != suggested(1)
    assert len({value for pair in first for value in pair}) == 6  # settings and trials do not go in step


def test_stop_loses_only_the_running_trial(tmp_path):
    class StopInSecond(Watcher):
        trial = -1

        def on_trial(self, number, settings, epochs):
            self.trial = number

        def should_stop(self, state):
            return state is not None and self.trial == 1

    url = sqlite_url(tmp_path / "study.db")
    tuner = Tuner(tiny(latent_dim=None), numbers(), vary=DIMS)
    with pytest.raises(Interrupted):
        tuner.open(url).run(3, StopInSecond())
    trials = tuner.results().trials
    assert trials["state"].tolist() == ["finished", "interrupted"]
    assert trials["reason"].fillna("").tolist() == ["", "stopped by Ctrl-C or a signal"]
    assert len(numbers_of(tuner.open(url).run(3))) == 3


def test_a_fault_says_why_and_a_process_that_is_killed_is_no_fault(monkeypatch):
    tuner = Tuner(tiny(latent_dim=None), numbers(), vary=DIMS).open()
    tuner.study.tell(tuner.study.ask(), state=optuna.trial.TrialState.FAIL)  # as Optuna does for a worker that is gone
    with monkeypatch.context() as patch:
        patch.setattr(tuner, "_score", lambda model: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tuner.run(1)
    trials = tuner.results().trials
    assert trials["state"].tolist() == ["interrupted", "failed"]
    assert trials["reason"].tolist() == ["its process ended before it did", "ZeroDivisionError: division by zero"]


@pytest.mark.parametrize(
    ("frame", "metric", "words"), [(numbers(), "accuracy", "levels"), (numbers(), "f1", "accuracy, rmse")]
)
def test_metric_must_suit_the_table(frame, metric, words):
    with pytest.raises(InputError, match=words):
        Tuner(tiny(latent_dim=None), frame, vary=DIMS, metric=metric)


def test_bad_storage_is_named(tmp_path):
    tuner = Tuner(tiny(latent_dim=None), numbers(), vary=DIMS)
    (tmp_path / "study.db").write_text("no database")
    with pytest.raises(InputError, match=r"study.db cannot be used .*not a database"):
        tuner.open(sqlite_url(tmp_path / "study.db"))
    with pytest.raises(InputError, match="nosuch://me:\\*\\*\\*@host/x"):
        tuner.open("nosuch://me:secret@host/x").run(1)


# -- preset files


def _file(folder, content):
    path = folder / "preset.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_preset_file(tmp_path):
    settings = {"latent_dim": 7, "edge_learning_rate": None, "acyclicity_weight": 3.0}
    path = _file(tmp_path, {"preset": "paper-eedi", "settings": settings, "version": "0", "score": 0.5})
    expected = dataclasses.replace(PRESETS["paper-eedi"], **settings)
    assert config_of(path, {"latent_dim": None}) == expected
    assert config_of(path, {"latent_dim": 9}).latent_dim == 9
    assert config_of(_file(tmp_path, {"settings": {"edge_learning_rate": None}}), {}).edge_learning_rate is None
    assert config_of({"settings": {"latent_dim": 7}}, {}).latent_dim == 7
    assert kept_preset("paper-eedi") == "paper-eedi"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "preset.json, line 1, is not JSON"),
        ("[1]", "preset.json holds no preset"),
        ({"latent_dim": 3}, "unknown key 'latent_dim'.*'settings'"),
        ({"settings": {"latent_dims": 3}}, "unknown setting 'latent_dims'.*latent_dim"),
        ({"settings": {"latent_dim": 0}}, "preset.json: latent_dim is 0"),
        ({"preset": "papers"}, "'papers'.*'paper-eedi'"),
    ],
)
def test_broken_preset_file(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        config_of(_file(tmp_path, content), {})


def test_missing_preset_file_and_wrong_types():
    with pytest.raises(InputError, match="best.json does not exist"):
        config_of("nowhere/best.json", {})
    with pytest.raises(InputError, match="unknown preset 'defualt'.*'default'.*preset file"):
        config_of("defualt", {})
    with pytest.raises(InputError, match="preset is 3"):
        config_of(3, {})


def test_a_saved_model_does_not_need_the_file(tmp_path):
    path = _file(tmp_path, {"settings": {"latent_dim": 4, "epochs": 2, "keep_own": False, "n_draws": 3}})
    table = numbers(20)
    model = VISL(preset=path, random_state=0).fit(table)
    (tmp_path / "preset.json").unlink()
    model.save(tmp_path / "m")
    loaded = VISL.load(tmp_path / "m")
    assert loaded.model_.config == model.model_.config
    assert loaded.transform(table).equals(model.transform(table))
    again = VISL(**{**loaded.get_params(), "groups": None}).fit(table)
    assert again.edge_probabilities_.equals(model.edge_probabilities_)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "visl-model.json").read_bytes() == (tmp_path / "m" / "visl-model.json").read_bytes()
