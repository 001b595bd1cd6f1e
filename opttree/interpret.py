"""What a model stands on: shares of weights, importances of features."""

from opttree.explain.importance import (
    average_entropy as average_entropy,
    feature_importance as feature_importance,
    importances as importances,
    weight_shares as weight_shares,
)

__all__ = ["average_entropy", "feature_importance", "importances", "weight_shares"]
