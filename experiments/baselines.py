"""Other libraries' methods with what protocols vary, or leave to the method: how deep AdaBoost's trees are, when
boosting stops, the options of a random forest; and those whose classes are not scikit-learn's in form.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor, RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from experiments.methods import estimator_class

HELD_OUT = 0.2  # share of the training rows on which a method stops or chooses
PATIENCE = 50  # trees without a lower error there
FOREST_GRID = [{"max_features": m, "min_samples_leaf": n} for m, n in product((0.33, 0.66, 1.0), (1, 2, 5))]


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


class _StoppedRegressor(RegressorMixin, BaseEstimator, ABC):
    """Boosted trees of another library, stopped where the error on a fifth of the rows, held out, gets no lower.

    ``validation_loss_`` is that error, the mean square.
    """

    def __init__(
        self,
        n_estimators: int = 1000,
        max_depth: int = 6,
        learning_rate: float = 0.05,
        *,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> _StoppedRegressor:
        """Fit to four fifths of the rows; `methods.UnavailableError` where the library is missing."""
        X, valid_X, y, valid_y = train_test_split(X, y, test_size=HELD_OUT, random_state=self.random_state)
        self.model_ = self._fitted(X, y, [(valid_X, valid_y)])
        self.validation_loss_ = float(np.mean((self.predict(valid_X) - valid_y) ** 2))
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The sums of the trees up to the best one."""
        return self.model_.predict(X)

    def _shared(self) -> dict[str, Any]:
        """The options that libraries call by the same names."""
        names = ("n_estimators", "learning_rate", "n_jobs", "random_state")
        return {name: getattr(self, name) for name in names}

    @abstractmethod
    def _fitted(self, X: NDArray[Any], y: NDArray[Any], held_out: list[tuple[NDArray[Any], NDArray[Any]]]) -> Any:
        """The library's model, fitted."""


class StoppedXGBRegressor(_StoppedRegressor):
    """XGBoost with early stopping."""

    def _fitted(self, X: NDArray[Any], y: NDArray[Any], held_out: list[tuple[NDArray[Any], NDArray[Any]]]) -> Any:
        kind = estimator_class("xgboost", "regression")
        model = kind(max_depth=self.max_depth, early_stopping_rounds=PATIENCE, **self._shared())
        return model.fit(X, y, eval_set=held_out, verbose=False)


class StoppedLGBMRegressor(_StoppedRegressor):
    """LightGBM with early stopping and ``2**max_depth - 1`` leaves in a tree, at any depth."""

    def _fitted(self, X: NDArray[Any], y: NDArray[Any], held_out: list[tuple[NDArray[Any], NDArray[Any]]]) -> Any:
        kind = estimator_class("lightgbm", "regression")
        from lightgbm import early_stopping

        model = kind(num_leaves=2**self.max_depth - 1, verbose=-1, **self._shared())
        return model.fit(X, y, eval_set=held_out, callbacks=[early_stopping(PATIENCE, verbose=False)])


class _Perpetual(BaseEstimator):
    """Boosted trees of perpetual, whose own classes lack what scikit-learn's searches ask for."""

    kind = ""

    def __init__(self, budget: float = 0.5, *, seed: int = 0, num_threads: int | None = None) -> None:
        self.budget, self.seed, self.num_threads = budget, seed, num_threads

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> _Perpetual:
        """Fit the trees."""
        options = {"budget": self.budget, "seed": self.seed, "num_threads": self.num_threads}
        self.model_ = estimator_class("perpetual-own", self.kind)(**options).fit(X, y)
        if self.kind == "classification":
            self.classes_ = np.unique(y)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predictions."""
        return np.asarray(self.model_.predict(X))


class PerpetualRegressor(RegressorMixin, _Perpetual):
    """Of numbers."""

    kind = "regression"


class PerpetualClassifier(ClassifierMixin, _Perpetual):
    """Of classes."""

    kind = "classification"

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities of the classes."""
        return np.asarray(self.model_.predict_proba(X))


class TabNetStoppedRegressor(RegressorMixin, BaseEstimator):
    """TabNet (pytorch-tabnet) with its own sizes, on standardised columns, stopped where the error on a fifth of the
    rows, held out, gets no lower in `PATIENCE` epochs.
    """

    def __init__(self, max_epochs: int = 200, *, random_state: int = 0) -> None:
        self.max_epochs = max_epochs
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> TabNetStoppedRegressor:
        """Fit to four fifths of the rows."""
        from pytorch_tabnet.tab_model import TabNetRegressor

        self.units_ = [StandardScaler().fit(part) for part in (X, np.reshape(y, (-1, 1)))]
        both = self.units_[0].transform(X), self.units_[1].transform(np.reshape(y, (-1, 1)))
        X, valid_X, Y, valid_Y = train_test_split(*both, test_size=HELD_OUT, random_state=self.random_state)
        self.model_ = TabNetRegressor(seed=self.random_state, verbose=0)
        with warnings.catch_warnings(), redirect_stdout(StringIO()):  # it tells of its last epoch
            warnings.simplefilter("ignore")
            self.model_.fit(X, Y, eval_set=[(valid_X, valid_Y)], max_epochs=self.max_epochs, patience=PATIENCE)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The network's answers, in the units of y."""
        return self.units_[1].inverse_transform(self.model_.predict(self.units_[0].transform(X))).ravel()


class HHCARTRegressor(RegressorMixin, BaseEstimator):
    """HHCART (scikit-obliquetree): each node looks for axis-aligned splits of its rows and of their reflection by a
    Householder matrix of the first principal component.
    """

    def __init__(self, max_depth: int | None = None) -> None:
        self.max_depth = max_depth

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> HHCARTRegressor:
        """Grow the tree."""
        from scikit_obliquetree.HHCART import HouseHolderCART
        from scikit_obliquetree.segmentor import MSE, MeanSegmentor

        self.model_ = HouseHolderCART(MSE(), MeanSegmentor(), max_depth=self.max_depth)
        self.model_.fit(X, y)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The means at the leaves."""
        return np.asarray(self.model_.predict(X), np.float64)


class DL85QuantileClassifier(ClassifierMixin, BaseEstimator):
    """Optimal trees by DL8.5 (pytrees-rs) on indicators of quantile bins of columns, five as in GradTree's paper."""

    def __init__(self, max_depth: int = 4, *, bins: int = 5, time_limit: float = 600.0) -> None:
        self.max_depth = max_depth
        self.bins = bins
        self.time_limit = time_limit

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> DL85QuantileClassifier:
        """Search; what there is at the time limit stays."""
        from pytrees import DL85Classifier

        self.binner_ = KBinsDiscretizer(
            self.bins, encode="onehot-dense", strategy="quantile", quantile_method="averaged_inverted_cdf"
        )
        self.classes_, code = np.unique(y, return_inverse=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bins that are empty
            Z = self.binner_.fit_transform(X)
        self.model_ = DL85Classifier(max_depth=self.max_depth, min_sup=1, max_time=self.time_limit).fit(Z, code)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The most frequent classes at the leaves."""
        return self.classes_[np.asarray(self.model_.predict(self.binner_.transform(X)), np.intp)]


class TunedRandomForestRegressor(RegressorMixin, BaseEstimator):
    """The best of nine forests of 100 trees on a fifth of the rows, with 300 trees on all of them."""

    def __init__(self, *, n_jobs: int | None = None, random_state: int | None = None) -> None:
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> TunedRandomForestRegressor:
        """Choose, then fit to all rows."""
        parts = train_test_split(X, y, test_size=HELD_OUT, random_state=self.random_state)
        fit_X, valid_X, fit_y, valid_y = parts
        values = [self._forest(100, options).fit(fit_X, fit_y).score(valid_X, valid_y) for options in FOREST_GRID]
        self.best_params_ = FOREST_GRID[int(np.argmax(values))]
        self.best_estimator_ = self._forest(300, self.best_params_).fit(X, y)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The means of the trees."""
        return self.best_estimator_.predict(X)

    def _forest(self, trees: int, options: dict[str, Any]) -> RandomForestRegressor:
        return RandomForestRegressor(trees, n_jobs=self.n_jobs, random_state=self.random_state, **options)
