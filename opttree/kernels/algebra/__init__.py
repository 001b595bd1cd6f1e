"""Linear algebra of leaves and splits: Gram matrices, quadratic, absolute and logistic losses of linear models."""
