"""The paper's experiments, and those beside them: every method on every data set, one row a cell."""
