#!/bin/sh
# Does what the file beside the link says by which it was called: sbatch.sh for sbatch.
. "$0.sh"
