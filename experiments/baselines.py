"""AdaBoost with the depth of its trees as an option, as protocols vary it."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


class AdaBoostedTreesRegressor(AdaBoostRegressor):
    """AdaBoost over CART trees of ``max_depth``."""

    def __init__(
        self, max_depth: int = 10, *, n_estimators: int = 100, learning_rate: float = 1.0, random_state: Any = None
    ) -> None:
        super().__init__(
            DecisionTreeRegressor(max_depth=max_depth),
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            random_state=random_state,
        )
        self.max_depth = max_depth


class AdaBoostedTreesClassifier(AdaBoostClassifier):
    """AdaBoost over CART trees of ``max_depth``."""

    def __init__(
        self, max_depth: int = 10, *, n_estimators: int = 100, learning_rate: float = 1.0, random_state: Any = None
    ) -> None:
        super().__init__(
            DecisionTreeClassifier(max_depth=max_depth),
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            random_state=random_state,
        )
        self.max_depth = max_depth
