"""Eedi: topics of mathematics, from the right and wrong answers of 6148 students, 74 % of them missing.

Splits of the students differ by more than methods do, so every method is scored on the same ten splits, also by its
gain over the question mean. The relations between topics come from five initialisations on the first split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from visl.experiments import contenders, illustrations, paper, tables
from visl.experiments.design import Contender, DataSet, Experiment, Row
from visl.experiments.eedi_data import DOWNLOAD, Topics, read_answers
from visl.experiments.methods import imputes
from visl.experiments.problem import Problem, Structure, Truth
from visl.experiments.protocol import hide_test_cells
from visl.experiments.relations import Relation, by_topic, describe, share_inside, union
from visl.experiments.rows import DONE, unpack_edges
from visl.schema import BINARY

SPLITS, RUNS = 10, 5
TRAIN_SHARE, VALIDATION_SHARE = 0.8, 0.1
RELATION_THRESHOLD = 0.35  # of an edge's probability, in any run (paper)
FIRST_SPLIT = "split 0"
TOPIC_SEED = 0  # of the topic that a question with several gets: the same in all splits
FIRST_LABEL, SPLIT_LABEL, RUN_LABEL = "first split", "splits", "runs"
ON_SPLITS = (FIRST_LABEL, SPLIT_LABEL)
RANDOM = "Random edges"
WITH_RELATIONS = ("VISL", "VISL, default preset", "DAG-GNN", RANDOM)
SCORES = ("accuracy", "auroc", "aupr", "average_precision")


def data_sets(smoke: bool) -> list[DataSet]:
    settings: dict[str, Any] = {"smoke": True} if smoke else {}
    splits = range(1) if smoke else range(SPLITS)
    runs = range(1, 2) if smoke else range(1, RUNS)
    return [
        *(
            DataSet(f"split {k}", 948, {"split": k, "seed": k, **settings}, label=SPLIT_LABEL if k else FIRST_LABEL)
            for k in splits
        ),
        *(
            DataSet(f"{FIRST_SPLIT}, run {k}", 948, {"split": 0, "seed": 100 + k, **settings}, label=RUN_LABEL)
            for k in runs
        ),
    ]


def load(data_set: DataSet, data: Path | None) -> tuple[Problem, Truth]:
    answers = read_answers(data, np.random.default_rng(TOPIC_SEED))
    values, topic_of = answers.values, answers.topic_of
    rng = np.random.default_rng([948, data_set.settings["split"]])
    order = rng.permutation(len(values))
    n_train, n_validation = (round(share * len(values)) for share in (TRAIN_SHARE, VALIDATION_SHARE))
    train, test = values[order[:n_train]], values[order[n_train + n_validation :]]
    if data_set.settings.get("smoke"):  # a few students, and the questions of a few topics
        chosen = topic_of < 4
        train, test, topic_of = train[:60, chosen], test[:40, chosen], topic_of[chosen]
    problem, truth = hide_test_cells(train, test, rng, kind=BINARY, group_of=topic_of)
    return problem, replace(truth, about=asdict(answers.topics))


def make_tables(rows: Sequence[Row]) -> list[str]:
    names, imputers = EXPERIMENT.names(), EXPERIMENT.names(imputes)
    on_splits = [row for row in rows if row["label"] != RUN_LABEL]
    return [
        tables.section(f"Imputation: hidden answers of the test students, {SPLITS} splits"),
        tables.means(on_splits, imputers, (*SCORES, "log_likelihood"), paper.EEDI_IMPUTATION, digits=4),
        tables.section("Gain over the question mean on the same split"),
        gains(on_splits, imputers),
        *_relation_tables(rows),
        tables.section("Time of a cell"),
        tables.costs(rows, names),
    ]


def gains(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Mean and standard error over the splits of (method - question mean)."""
    base = {row["data_set"]: row["scores"] for row in rows if row["method"] == "Mean" and row["status"] == DONE}
    printed = paper.EEDI_IMPUTATION
    lines = []
    for name in tables.shown_names(rows, names, SCORES):
        mine = tables.of_method(rows, name)
        done = [row for row in mine if row["status"] == DONE and row["data_set"] in base]
        if name == "Mean":
            continue
        share = "" if len(done) == len(mine) else f" ({len(done)} of {len(mine)})"
        ours = [tables.mean_and_error(_differences(done, base, score), 4) + share for score in SCORES]
        if not done:
            ours = [tables.summary(mine, score) for score in SCORES]
        of_paper = [tables.number(a - b, 4) for a, b in zip(printed.get(name, ()), printed["Mean"], strict=False)]
        lines.append([name, *ours, *of_paper, *[tables.NOTHING] * (3 - len(of_paper))])
    words = [tables.WORDS[score] for score in SCORES]
    return tables.markdown(["method", *words, *(f"paper: {word}" for word in words[:3])], lines)


def _differences(rows: Sequence[Row], base: Mapping[str, Mapping[str, Any]], score: str) -> list[float]:
    pairs = [(row["scores"].get(score), base[row["data_set"]].get(score)) for row in rows]
    return [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]


def _relation_tables(rows: Sequence[Row]) -> list[str]:
    runs = {name: _edges_of_runs(rows, name) for name in WITH_RELATIONS}
    runs = {name: found for name, found in runs.items() if found}
    topics = next((Topics(**row["about"]) for row in rows if row.get("about")), None)
    if not runs or topics is None:
        return []
    found = {name: _relations(name, structures) for name, structures in runs.items()}
    summary = [
        [
            name,
            str(len(runs[name])),
            str(len(relations)),
            *(_percent(share_inside(relations, level)) for level in (topics.level_1, topics.level_2)),
            *_printed_relations(name),
        ]
        for name, relations in found.items()
    ]
    titles = ["relations", "inside level 1", "inside level 2"]
    titles = ["method", "runs", *titles, *(f"paper: {title}" for title in titles)]
    return [
        tables.section(
            f"Relations between topics: edges of VISL over {RELATION_THRESHOLD}, of others their own, in any run"
        ),
        tables.markdown(titles, summary),
        *(part for name in found for part in _of_one_method(name, found[name], topics)),
    ]


def _of_one_method(name: str, relations: Sequence[Relation], topics: Topics) -> list[str]:
    if not relations:
        return []
    level_1 = list(dict.fromkeys(topics.level_1))
    across = by_topic(relations, topics.level_1)
    matrix = [[a, *(str(across[a, b]) for b in level_1)] for a in level_1]
    pairs = sorted(by_topic(relations, topics.level_2).items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [
        tables.section(f"{name}: relations across level-1 topics (from down, to across)"),
        tables.markdown(["from", *level_1], matrix),
    ]
    if name != RANDOM:
        parts += [
            tables.section(f"{name}: relations across level-2 topics"),
            tables.markdown(["from", "to", "relations"], [[a, b, str(count)] for (a, b), count in pairs]),
        ]
    if name.startswith(tables.VISL):
        listed = [
            [describe(topics, r.sender), describe(topics, r.receiver), tables.number(r.probability), str(r.runs)]
            for r in relations
        ]
        parts += [
            tables.section(f"{name}: the relations"),
            tables.markdown(["from", "to", "mean probability", "runs over the threshold"], listed),
        ]
    return parts


def _edges_of_runs(rows: Sequence[Row], name: str) -> list[Structure]:
    mine = [row for row in tables.of_method(rows, name) if row["status"] == DONE and row.get("edges")]
    return [unpack_edges(row["edges"]) for row in mine if row["data_set"].startswith(FIRST_SPLIT)]


def _relations(name: str, structures: Sequence[Structure]) -> list[Relation]:
    """Of VISL, edges over the threshold; of methods without probabilities their own edges."""
    strengths = [illustrations.strengths(structure) for structure in structures]
    own = [structure.edges for structure in structures]
    return union([s > RELATION_THRESHOLD for s in strengths] if name.startswith(tables.VISL) else own, strengths)


def _printed_relations(name: str) -> list[str]:
    if name not in paper.EEDI_RELATIONS:
        return [tables.NOTHING] * 3
    n, *shares = paper.EEDI_RELATIONS[name]
    return [f"{n:g}", *map(_percent, shares)]


def _percent(share: float) -> str:
    return tables.NOTHING if math.isnan(share) else f"{share:.0%}"


def _imputers() -> list[Contender]:
    return [replace(contender, only=ON_SPLITS) for contender in contenders.IMPUTATION]


EXPERIMENT = Experiment(
    name="eedi",
    title="Eedi: right and wrong answers of students, relations between 57 topics",
    data_sets=data_sets,
    contenders=(
        *_imputers(),
        Contender(RANDOM, "random_edges", only=(FIRST_LABEL,)),
        Contender("DAG-GNN", "dag_gnn_groups", only=(FIRST_LABEL, RUN_LABEL)),
        Contender("VISL", "visl", {"preset": "paper-eedi"}),
        Contender("VISL, default preset", "visl", {"preset": "default"}, only=ON_SPLITS),
    ),
    load=load,
    tables=make_tables,
    keeps_edges=lambda data_set: data_set.settings["split"] == 0,  # for the relations
    download=DOWNLOAD,
    files_of=lambda data_set: "the same for all splits",
)
