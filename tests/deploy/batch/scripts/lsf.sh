#!/usr/bin/env bash

#BSUB -J daskevo
#BSUB -e WHERE/logs/dummy-name-%J.err
#BSUB -o WHERE/logs/dummy-name-%J.out
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -M 68719477
#BSUB -W 02:00

python -m daskevo_workflows.cli node tcp://SCHEDULER --name dummy-name --nthreads 4 --memory-limit 32.00GiB --death-timeout 60 --provider-threads 4 --lifetime 6900s --lifetime-stagger 300s --trainers 2 --providers 1
