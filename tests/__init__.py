"""The tests, in the same tree as the code.

They run in parallel and next to other work: waiting threads must sleep (see `machine.threads`), and
nothing imports torch before this.
"""

from machine.threads import limit_omp_spinning

limit_omp_spinning()
