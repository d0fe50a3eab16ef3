"""OpenMP's wait policy, and environment variables that limit libraries to one thread.

OpenMP's threads spin at the end of every parallel region. If another process uses the same cores, a
spinning thread blocks the thread that it waits for. Measured on two shared cores, 100 codes of the
embedded voice took 21.8 s spinning, 2.2 s sleeping, and 1.3 s with one thread.
"""

import os

# For a child that multiplies no matrices. Importing numpy reserves tens of MB for each thread of
# the linear-algebra library: 2.7 GB of address space on 64 cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}


def set_omp_passive() -> None:
    """Makes waiting threads sleep, unless OMP_WAIT_POLICY is set.

    Call it before torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
