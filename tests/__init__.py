"""The tests, in the same tree as the code.

They run beside each other and beside other work: threads must sleep while they wait (see
`xtts.threads`), and nothing imports torch before this.
"""

from xtts.threads import set_omp_passive

set_omp_passive()
