"""Background work that takes hours: queues on disk, and children at a low priority."""
