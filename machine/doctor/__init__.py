"""`python -m xtts doctor`: what is wrong with this machine, and the command that fixes it.

`readings` fills a frozen `Machine`, pure `checks` judge it (`diagnosis` has the list), `report`
prints. A reading that fails or hangs is a finding, never an error.
"""
