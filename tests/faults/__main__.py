"""``python -m tests.faults``, see `tests.faults.faults`."""

from tests.faults.faults import main

main()
