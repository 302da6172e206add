"""Make TensorFlow give the same bits every time, before it is used in the process."""

from __future__ import annotations

from daskevo.errors import InvalidInput


def deterministic(threads: int = 1) -> None:
    """Let TensorFlow use only operations whose result is the same every time, in a fixed number of threads.

    To be called once per process, before the first tensor is made. Another number of threads may round otherwise.

    Raises
    ------
    InvalidInput
        If TensorFlow was used before, with another number of threads.
    """
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    # TensorFlow fixes its threads at its first operation. Asking once more for the same numbers raises nothing.
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    except RuntimeError as error:
        raise InvalidInput(
            f"TensorFlow was used in this process before, with other threads than {threads}: call deterministic() first"
        ) from error
