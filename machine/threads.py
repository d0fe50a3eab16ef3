"""OpenMP wait policy, which must be set before torch is imported; libraries with one thread each.

OpenMP's threads spin at the end of every parallel region. Where another process wants the same
cores, each spinning thread keeps the one that it waits for from running: measured on two shared
cores, 100 codes of the embedded voice took 21.8 s spinning, 2.2 s sleeping, 1.3 s with one thread.
"""

import os

# The environment of a child that multiplies no matrices: each thread of a linear-algebra library
# reserves tens of MB when numpy is imported, 2.7 GB of address space on 64 cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}


def set_omp_passive() -> None:
    """Lets waiting threads sleep, unless OMP_WAIT_POLICY says otherwise."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
