"""The experiments as pictures: functions from data to a Figure, and `save`. None of them opens a window."""

from visl.experiments.pictures.graphs import edge_heat_map, predicted_graph
from visl.experiments.pictures.methods import edge_curves, ranking_curves, running_times
from visl.experiments.pictures.pairs import pair_plot
from visl.experiments.pictures.style import save

__all__ = ["edge_curves", "edge_heat_map", "pair_plot", "predicted_graph", "ranking_curves", "running_times", "save"]
