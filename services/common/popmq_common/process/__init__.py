"""What every process needs: clock, settings from the environment, logs, memory, serving."""
