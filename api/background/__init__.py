"""Work of hours behind whoever speaks: children at a low priority, from queues on disk."""
