"""The GPU that a process, or a thread, means where it names none.

CUDA keeps the current GPU for each thread, and starts with the first one: streams, captured graphs,
pinned memory, counters and nccl go by it. So every process and every thread that computes says once
which GPU is its own. Importing this module imports no torch.
"""


def make_current(device: str) -> None:
    """What names no GPU means this one, in this thread; otherwise each process would also open the
    first one, half a gigabyte each. Attention is flash's or torch's own there. Nothing for a CPU.
    """
    if not device.startswith("cuda"):
        return
    import torch

    torch.cuda.set_device(int(device.partition(":")[2] or 0))
    # On compute capability 9.0 and 10.0 torch takes cuDNN's attention first, which makes a plan for
    # each new shape: half a second, twice (FunASR#3704), and nearly every training step has one.
    torch.backends.cuda.enable_cudnn_sdp(False)
