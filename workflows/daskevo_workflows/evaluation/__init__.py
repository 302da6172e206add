"""What happens on a trainer: one evaluation, from building the model to its put and its report."""
