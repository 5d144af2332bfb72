"""What the backward is given and what it computes again: the partition of a program with its gradients.

    joint     the program of outputs and gradients; split into a forward and a backward that meet in the saved values
    network   saving against recomputing as a cut (definitions 5.1 and 5.2)       maxflow   its minimum, with a certificate
    document  the document's capacities on operator graphs                        prices    the default: bytes and time
    budget    a limit on saved bytes, or on the peak of memory                    schedule  checkpoints on a chain
"""
