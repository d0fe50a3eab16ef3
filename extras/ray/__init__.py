"""Ray: `train cut --ray` and `xtts read --ray` compute on several machines."""

STEPS = "extras.ray.ray_steps"
