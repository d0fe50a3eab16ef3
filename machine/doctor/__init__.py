"""`python -m xtts doctor`: what is wrong with this machine, and the command that fixes it.

`looking` takes readings (a frozen `machine.Machine`), pure checks judge them (`judging` has the
list), `report` prints. A reading that fails or hangs is a finding, never an error.
"""
