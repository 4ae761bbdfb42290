"""One small class and one model of it for all tests of the command line."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from visl.cli.app import app

Run = Callable[..., Result]
TINY = ("--epochs", "2", "--latent-dim", "4", "--draws", "4")


@pytest.fixture(scope="session")
def run() -> Run:
    runner = CliRunner()

    def invoke(*arguments: object) -> Result:
        return runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "100", "NO_COLOR": "1"})

    return invoke


@pytest.fixture(scope="session")
def mixed() -> pd.DataFrame:
    """A column of each kind, a row label and gaps everywhere but there: 40 rows."""
    rng = np.random.default_rng(1)
    n = 40
    frame = pd.DataFrame(
        {
            "who": [f"p{i}" for i in range(n)],
            "height": rng.normal(170, 8, n).round(1),
            "smoker": rng.choice(["no", "yes"], n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "score": rng.integers(1, 7, n).astype(float),
            "right": rng.integers(0, 2, n).astype(float),
        }
    )
    frame.iloc[:, 1:] = frame.iloc[:, 1:].mask(rng.random((n, 5)) < 0.2)
    return frame


@pytest.fixture(scope="session")
def mixed_path(mixed: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "mixed.csv"
    mixed.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(run: Run, mixed_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fitted on `mixed`, with `who` as the row label."""
    out = tmp_path_factory.mktemp("model") / "model"
    result = run("fit", mixed_path, "--id", "who", "--kind", "score=ordinal", "--out", out, *TINY)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="session")
def classroom(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of `visl simulate education`: 60 students, 3 topics of 2 questions."""
    out = tmp_path_factory.mktemp("class") / "class"
    result = run("simulate", "education", "--out", out, "--students", 60, "--topics", 3, "--questions", 2)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="session")
def log_options() -> Sequence[str]:
    return ("--long", "--row", "student", "--column", "question", "--value", "correct")


@pytest.fixture(scope="session")
def log_model(run: Run, classroom: Path, log_options: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("logs") / "model"
    result = run("fit", classroom / "log.csv", *log_options, "--groups", classroom / "topics.csv", "--out", out, *TINY)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Run a command that must be refused, and return what it says."""

    def invoke(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 2, (result.exit_code, result.output)
        assert "Traceback" not in result.output
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
        return str(result.stderr)

    return invoke
