#!/usr/bin/env bash

#PBS -N daskevo
#PBS -q prod
#PBS -A PROJECT
#PBS -l select=1:system=polaris
#PBS -l walltime=06:00:00
#PBS -e WHERE/logs/
#PBS -o WHERE/logs/
#PBS -l filesystems=home:eagle
#PBS -l place=scatter
module use /soft/modulefiles
module load conda
python -m daskevo_workflows.cli node tcp://SCHEDULER --name dummy-name --nthreads 2 --memory-limit 16.00GiB --death-timeout 60 --provider-threads 8 --lifetime 21300s --lifetime-stagger 300s --trainers 4 --providers 1
