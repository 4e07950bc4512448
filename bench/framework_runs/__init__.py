"""Real, tiny training runs in TRL, SB3 and RLlib, healthy or with a wrong learning rate.

`make framework-runs` trains them on the CPU and writes their logs to bench/results/framework_runs,
with a manifest that says what was done to each run and whether it failed.
"""
