"""Faults: killed processes, full disks, limits on memory, interrupts, forks, clock jumps; and a soak.

``python -m tests.system.faults`` and ``python -m tests.system.faults.soak`` write tables to
``experiments/results/reliability``.
"""
