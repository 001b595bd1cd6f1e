"""Faults: killed processes, full disks, limits on memory, interrupts, forks, clock jumps; and a soak.

``python -m tests.faults`` and ``python -m tests.faults.soak`` write tables to ``experiments/results/reliability``.
"""
