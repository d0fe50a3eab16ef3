"""What the doctor reads of the machine, without a judgement."""
