"""Ten seconds of fuzzing, by ``make long`` half a minute; a campaign is ``python -m tests.system.fuzz``."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.system.fuzz.campaign import PARTS, run

EXAMPLES = {"estimators": 36, "limits": 8, "solvers": 80, "oracle": 50, "files": 400, "tables as text": 30}


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_lost_or_silently_wrong(part, times):
    @settings(
        max_examples=times * EXAMPLES[part],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def cases(data):
        run(part, data)

    cases()
