"""``python -m tests.system.faults``, see `tests.system.faults.faults`."""

from tests.system.faults.faults import main

main()
