"""Choosing schedules: choose(program, target) -> (program, plan).

    machine  what the machine can do, measured once        prices   what an operation costs on it
    summary  what a kernel computes, and where             cost     the modelled time of a schedule
    space    the schedules of a kernel, ranked             fuse     which lets are kernels of their own
    pack     copies of operands in the order of use        tune     timing the first few, remembering the winner
    decide   all of it together                            signature  kernels that look alike are modelled once

No workload is known by name: everything follows from one fact per variable, rep[v] = (copies, lanes).
"""

from assay.backends.schedule.decide import choose

__all__ = ["choose"]
