"""How OpenMP's threads wait, and environment variables that limit libraries to one thread.

OpenMP's threads spin at the end of every parallel region. If another process uses the same cores, a
spinning thread blocks the thread that it waits for. Measured on two shared cores, 100 codes of the
embedded voice took 21.8 s spinning, 2.2 s sleeping, and 1.3 s with one thread. But a thread that
sleeps at once has to be woken for the next region, which in a small model follows within
microseconds: on two idle cores the first sound of the embedded voice took 115 ms sleeping, 58 ms
spinning, and 74 ms with `SPINS` (docs/benchmarks-history.md, "Threads that wait").
"""

import os

# For a child that multiplies no matrices. Importing numpy reserves tens of MB for each thread of
# the linear-algebra library: 2.7 GB of address space on 64 cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
# How often a waiting thread of libgomp, which torch brings for Linux, looks before it sleeps; some
# microseconds. Five times as many are as fast as spinning for ever, and took four processes on two
# cores 2.9 times as long as sleeping does; these 1.3 times.
SPINS = 1000


def limit_omp_spinning() -> None:
    """Makes waiting threads sleep soon, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.

    Call it before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    # Other OpenMP libraries know no count.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
