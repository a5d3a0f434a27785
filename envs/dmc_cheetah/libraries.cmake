maglev_needs_mujoco()
