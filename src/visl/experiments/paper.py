"""The figures that the paper prints, to stand beside ours. Methods have the names of our tables."""

from __future__ import annotations

from collections.abc import Mapping

Figures = Mapping[str, tuple[float, ...]]  # method -> figures, in the order that the name says

# RMSE for D = 5, 7, 9 and all.
SYNTHETIC_RMSE: Figures = {
    "Majority vote": (0.5507, 0.5391, 0.5427, 0.5442),
    "Mean": (0.2351, 0.2124, 0.2143, 0.2206),
    "MICE": (0.1352, 0.1501, 0.1230, 0.1361),
    "MissForest": (0.1279, 0.1403, 0.1258, 0.1313),
    "PVAE": (0.1324, 0.1536, 0.1360, 0.1407),
    "VISL": (0.1146, 0.1251, 0.1191, 0.1196),
}
# Recall, precision and F1 of adjacency, the same of orientation, causal accuracy.
SYNTHETIC_STRUCTURE: Figures = {
    "PC": (0.422, 0.634, 0.495, 0.218, 0.328, 0.257, 0.330),
    "GES": (0.452, 0.569, 0.491, 0.249, 0.305, 0.270, 0.364),
    "NOTEARS (L)": (0.193, 0.443, 0.265, 0.149, 0.367, 0.209, 0.149),
    "NOTEARS (NL)": (0.328, 0.489, 0.387, 0.277, 0.417, 0.327, 0.277),
    "DAG-GNN": (0.443, 0.509, 0.464, 0.352, 0.415, 0.373, 0.352),
    "VISL": (0.843, 0.679, 0.740, 0.520, 0.414, 0.454, 0.726),
}
# For D = 5, 7, 9 and all. The paper's means over D are not those of its printed figures.
SYNTHETIC_ADJACENCY: Figures = {
    "PC": (0.526, 0.468, 0.491, 0.495),
    "GES": (0.446, 0.501, 0.525, 0.491),
    "NOTEARS (L)": (0.247, 0.309, 0.238, 0.265),
    "NOTEARS (NL)": (0.384, 0.382, 0.394, 0.387),
    "DAG-GNN": (0.399, 0.446, 0.547, 0.464),
    "VISL": (0.730, 0.725, 0.652, 0.740),
}
SYNTHETIC_ORIENTATION: Figures = {
    "PC": (0.416, 0.134, 0.219, 0.257),
    "GES": (0.285, 0.235, 0.291, 0.270),
    "NOTEARS (L)": (0.167, 0.248, 0.211, 0.209),
    "NOTEARS (NL)": (0.304, 0.330, 0.347, 0.327),
    "DAG-GNN": (0.249, 0.361, 0.508, 0.373),
    "VISL": (0.432, 0.480, 0.322, 0.454),
}
SYNTHETIC_CAUSAL: Figures = {
    "PC": (0.436, 0.324, 0.229, 0.330),
    "GES": (0.368, 0.345, 0.379, 0.364),
    "NOTEARS (L)": (0.119, 0.176, 0.151, 0.149),
    "NOTEARS (NL)": (0.264, 0.269, 0.297, 0.277),
    "DAG-GNN": (0.231, 0.318, 0.508, 0.352),
    "VISL": (0.971, 0.701, 0.526, 0.726),
}
# Accuracy, AUROC, AUPR.
NEUROPATHIC_IMPUTATION: Figures = {
    "Majority vote": (0.9268, 0.5304, 0.3366),
    "Mean": (0.9268, 0.8529, 0.3262),
    "MICE": (0.9469, 0.9319, 0.6513),
    "MissForest": (0.9305, 0.8915, 0.5227),
    "PVAE": (0.9415, 0.9270, 0.5934),
    "VISL": (0.9471, 0.9392, 0.6597),
}
NEUROPATHIC_STRUCTURE: Figures = {
    "PC": (0.046, 0.375, 0.082, 0.024, 0.199, 0.044, 0.058),
    "GES": (0.110, 0.436, 0.176, 0.082, 0.323, 0.131, 0.121),
    "NOTEARS (L)": (0.006, 0.011, 0.008, 0.001, 0.001, 0.001, 0.001),
    "NOTEARS (NL)": (0.011, 0.644, 0.022, 0.006, 0.354, 0.012, 0.006),
    "DAG-GNN": (0.129, 0.272, 0.128, 0.051, 0.126, 0.050, 0.051),
    "VISL": (0.261, 0.637, 0.370, 0.236, 0.573, 0.334, 0.245),
}
EEDI_IMPUTATION: Figures = {
    "Majority vote": (0.6260, 0.6208, 0.7465),
    "Mean": (0.6260, 0.6753, 0.6906),
    "MICE": (0.6794, 0.7453, 0.7483),
    "MissForest": (0.6849, 0.7219, 0.7478),
    "PVAE": (0.7138, 0.7852, 0.8204),
    "VISL": (0.7147, 0.7815, 0.8179),
}
# Number of relations, share inside a level-1 topic, share inside a level-2 topic.
EEDI_RELATIONS: Figures = {"VISL": (50, 0.82, 0.36), "DAG-GNN": (57, 0.42, 0.14), "Random edges": (50, 0.34, 0.06)}
# Minutes for 4, 8, 16, ..., 512 variables; MMHC took over a day from 64 on.
SCALING_SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
SCALING_MINUTES: Figures = {
    "PC": (2.5, 5.2, 8.1, 15.0, 21.7, 26.1, 30.2, 35.4),
    "GES": (0.21, 1.1, 1.8, 2.3, 2.8, 3.3, 3.9, 4.1),
    "NOTEARS (L)": (8.9, 21, 39, 56, 91, 140, 331, 378),
    "NOTEARS (NL)": (13, 31, 54, 89, 99, 240, 365, 469),
    "DAG-GNN": (14, 30, 52, 88, 112, 255, 371, 498),
    "VISL": (10, 25, 48, 76, 101, 202, 340, 421),
    "MMHC": (7.9, 69, 543, 1315),
    "Tabu": (2.0, 7.5, 24, 58, 78, 129, 163, 219),
    "HillClimb": (1.5, 7.0, 22, 52, 75, 122, 158, 210),
}
