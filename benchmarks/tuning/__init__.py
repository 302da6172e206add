"""What sharing equal training steps saves: what the scripts beside this have in common, and their tables."""
