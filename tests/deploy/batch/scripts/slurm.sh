#!/usr/bin/env bash

#SBATCH -J daskevo
#SBATCH -e WHERE/logs/daskevo-%J.err
#SBATCH -o WHERE/logs/daskevo-%J.out
#SBATCH -n 1
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH -t 02:00:00
#SBATCH --gres=gpu:4

python -m daskevo_workflows.cli node tcp://SCHEDULER --name dummy-name --nthreads 2 --memory-limit 16.00GiB --death-timeout 60 --provider-threads 4 --lifetime 6900s --lifetime-stagger 300s --trainers 4 --providers 1 --gpus-per-trainer 1
