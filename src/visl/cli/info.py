"""`visl info`: what is in a model folder."""

from __future__ import annotations

from typing import Any

from visl.cli import options as o
from visl.cli.console import Talk, count, listed, plain_table
from visl.cli.guard import guarded


@guarded
def info(model: o.ModelFolder, quiet: o.Quiet = False, as_json: o.AsJson = False) -> None:
    """Say what a model is: its table, its settings, its graph and its files."""
    from visl.cli.filling import read_model
    from visl.cli.fitting import columns_by_kind, edge_records, kinds_table, settings_of
    from visl.store import FORMAT_VERSION

    talk = Talk(quiet=quiet, as_json=as_json)
    fitted = read_model(model)
    settings = settings_of(fitted)
    files = {path.name: path.stat().st_size for path in sorted(model.iterdir())}
    summary: dict[str, Any] = {
        "model": model,
        "format_version": FORMAT_VERSION,
        "rows": fitted.n_rows_,
        "columns": fitted.columns_,
        "kinds": {column.name: kind for kind, columns in columns_by_kind(fitted).items() for column in columns},
        "groups": fitted.groups_,
        "set_aside": fitted.set_aside_,
        "settings": settings,
        "seed": fitted.random_state,
        "edges": edge_records(fitted),
        "gaps_by": "fits" if fitted.model_.polishes else "networks",
        "notices": fitted.notices_,
        "files": files,
    }
    facts = [
        ("fitted on", f"{count(fitted.n_rows_, 'row')} of {count(len(fitted.columns_), 'column')}"),
        ("groups", f"{len(fitted.groups_):,}: {listed(fitted.groups_)}"),
        ("set aside", listed(fitted.set_aside_, most=10) or "nothing"),
        ("edges", f"{fitted.graph_.number_of_edges():,} more probable than {fitted.edge_threshold:g}"),
        ("gaps", "drawn by networks" + (", then anew by fits of the graph" if fitted.model_.polishes else "")),
        *(
            (name.removeprefix("n_").replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
            for name, value in settings.items()
        ),
        ("seed", str(fitted.random_state)),
        ("parameters", f"{sum(parameter.numel() for parameter in fitted.model_.parameters()):,}"),
        ("format", f"version {FORMAT_VERSION}"),
        ("files", ", ".join(f"{name} ({size / 1024:,.0f} KiB)" for name, size in files.items())),
    ]
    talk.result(
        summary,
        str(model),
        plain_table(("", ""), facts),
        kinds_table(fitted),
        *(f"Notice: {notice}" for notice in fitted.notices_),
    )
