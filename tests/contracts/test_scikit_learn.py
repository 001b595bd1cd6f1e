"""scikit-learn's own checks, on every estimator."""

import pytest
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    DTSemNetClassifier,
    DTSemNetRegressor,
    GETClassifier,
    GETRegressor,
    GradTreeClassifier,
    GradTreeRegressor,
    HRTRegressor,
    OCTClassifier,
    ORRTClassifier,
    ORRTRegressor,
    ORTRegressor,
    RADDTClassifier,
    RADDTRegressor,
    SDTRClassifier,
    SDTRRegressor,
    SRTClassifier,
    SRTRegressor,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
)

VARIANTS = [
    TAORegressor(),
    TAORegressor(4, leaves="linear"),
    TAORegressor(4, splits="axis"),
    TAORegressor(4, loss="absolute"),
    TAOClassifier(4),
    TAOClassifier(4, leaves="linear"),
    TAOClassifier(4, splits="axis"),
    TAOClassifier(4, loss="log"),
    GETRegressor(2),
    GETRegressor(2, leaves="linear"),
    GETRegressor(1, preset="paper", n_starts=1),
    GETClassifier(2, n_starts=2),
    SRTRegressor(2, max_iter=5),
    SRTRegressor(2, init="cluster", k0=0, max_iter=5),
    SRTClassifier(2, max_iter=5),
    ORRTRegressor(2, max_iter=20),
    ORRTClassifier(2, max_iter=20),
    ORTRegressor(2),
    ORTRegressor(2, leaves="linear", solver="local", min_samples_leaf=1),  # ten rows are not the weight of ten
    ORTRegressor(2, splits="oblique", solver="local", n_init=2),
    OCTClassifier(2),
    GradTreeClassifier(3, epochs=150, n_starts=2),
    GradTreeRegressor(3, epochs=150, n_starts=2),
    RADDTRegressor(2, epochs=20),
    RADDTClassifier(2, epochs=20),
    DTSemNetRegressor(2, epochs=20),
    DTSemNetClassifier(3, epochs=20),
    HRTRegressor(2),
    SDTRRegressor(3, max_batches=300),
    SDTRRegressor(2, n_trees=3, n_layers=2, max_batches=200),
    SDTRClassifier(3, max_batches=300),
    SDTRClassifier(2, n_trees=3, max_batches=200),
    TAOForestRegressor(3),
    TAOForestClassifier(3),
    BoostedTreesRegressor("oblique", n_estimators=4),
    BoostedTreesClassifier("axis", n_estimators=4),
]

SHORT = (1, 9, 12, 17, 20, 21, 23, 28, 33)  # an estimator of each family; the others' checks take long


# Forests, boosting, GradTree, SDTR: samples, batches and held-out rows are drawn by rows. For the others,
# hundreds of quasi-Newton steps, and 2-means on repeated rows, tell weights from repetitions by rounding: 1e-6 here,
# where scikit-learn asks for 1e-7; see `test_weights_are_repetitions_to_soft_trees`
CHAOTIC = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rounding errors grow over the iterations"
    for kind in ("dense", "sparse")
}


# the check weighs one class ten million times the other and asks that few rows are given the other; but regions where
# training had only that one are the other's all the same in a tree that minimises the loss and does not shrink leaves
WEIGHTLESS = {"check_class_weight_classifiers": "regions without a row of the heavy class belong to the light one"}


@pytest.fixture(scope="module")
def skipped_by_scikit_learn():
    """The checks that scikit-learn's own trees skip."""
    reference = check_estimator(DecisionTreeRegressor(), on_fail=None, on_skip=None)
    return {o["check_name"] for o in reference if o["status"] == "skipped"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [one if k in SHORT else pytest.param(one, marks=pytest.mark.long) for k, one in enumerate(VARIANTS)],
    ids=repr,
)
def test_scikit_learns_own_checks(estimator, skipped_by_scikit_learn):
    drawn = (TAOForestRegressor, TAOForestClassifier, BoostedTreesRegressor, BoostedTreesClassifier)
    late = (RADDTRegressor, RADDTClassifier, DTSemNetRegressor, DTSemNetClassifier)
    chaotic = (
        SRTRegressor,
        SRTClassifier,
        ORRTRegressor,
        ORRTClassifier,
        GradTreeClassifier,
        GradTreeRegressor,
        SDTRRegressor,
        SDTRClassifier,
        *late,
        *drawn,
    )
    expected = CHAOTIC if isinstance(estimator, chaotic) else {}
    expected = expected | (WEIGHTLESS if isinstance(estimator, OCTClassifier) else {})
    outcomes = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=expected)
    bad = [
        (o["check_name"], str(o["exception"]))
        for o in outcomes
        if o["status"] not in ("passed", "skipped") and o["check_name"] not in expected
    ]
    assert not bad
    skipped = {o["check_name"] for o in outcomes if o["status"] == "skipped"}
    assert skipped <= skipped_by_scikit_learn
