"""What the doctor reads from the machine, without judgement."""
