"""The tests, in the same tree as the code.

They run beside each other and beside other work: threads must sleep while they wait (see
`machine.threads`), and nothing imports torch before this.
"""

from machine.threads import limit_omp_spinning

limit_omp_spinning()
