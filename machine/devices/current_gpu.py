"""Sets the current GPU of a process or thread.

CUDA keeps a current GPU per thread and starts with the first one. Streams, captured graphs, pinned
memory, counters and NCCL use it. So every process and every thread that computes sets it once.
Importing this module does not import torch.
"""


def make_current(device: str) -> None:
    """Makes `device` the current GPU of this thread; does nothing for a CPU.

    Without it each process would also create a context on the first GPU, which takes half a
    gigabyte. It also turns cuDNN's attention off; FlashAttention or torch's own kernels remain.
    """
    if not device.startswith("cuda"):
        return
    import torch

    torch.cuda.set_device(int(device.partition(":")[2] or 0))
    # On compute capability 9.0 and 10.0 torch prefers cuDNN's attention, which builds a plan for
    # each new shape: 0.5 s, twice (FunASR#3704). Nearly every training step has a new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
