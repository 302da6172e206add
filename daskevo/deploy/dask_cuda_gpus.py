"""Data of dask-cuda about this machine's GPUs: MIG instances, and the CPU cores near each GPU.

dask-cuda is imported when it is asked for, and not before: ``pip install 'daskevo[cuda]'``. Of its workers no more is
needed: a trainer keeps nothing on the GPU between evaluations, so there is nothing to spill, and TensorFlow makes the
CUDA context itself.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from daskevo.deploy.worker_environment import chosen_gpus, visible_gpus
from daskevo.errors import ClusterError, InvalidInput

logger = logging.getLogger(__name__)


def cuda_gpus() -> list[str]:
    """Return ids of the GPUs that this process may use, one for each trainer; of a GPU in MIG mode, its instances'.

    The driver's management library is asked, which makes no CUDA context.

    Raises
    ------
    InvalidInput
        If dask-cuda is not installed.
    ClusterError
        If there is no GPU here.
    """
    utils = _utils()
    try:
        chosen, count = chosen_gpus(), int(utils.get_gpu_count())
    except Exception as error:
        # NVML's own errors: no driver, or one of another version.
        raise ClusterError(
            f"trainers by dask-cuda were asked for, and no NVIDIA driver answers on this machine ({error}): "
            "start them where the GPUs are, or leave cuda out to train on CPUs"
        ) from error
    if chosen is not None:
        gpus = chosen
        _check_numbers(chosen, count)
    else:
        gpus = _all_gpus(utils, count)
    if not gpus:
        said = "" if chosen is None else f", and CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']!r} names none"
        raise ClusterError(
            f"trainers by dask-cuda were asked for, and none of the {count} GPUs of this machine can be used{said}: "
            "start them where there are some, or leave cuda out to train on CPUs",
            gpus=count,
        )
    return gpus


def near(gpus: str) -> tuple[Any, ...]:
    """Return the worker plugin that pins a trainer to the cores near its GPU; none if these are not known.

    Parameters
    ----------
    gpus:
        Of the trainer, as in ``CUDA_VISIBLE_DEVICES``.

    Raises
    ------
    InvalidInput
        If dask-cuda is not installed.
    """
    utils = _utils()
    cores: set[int] = set()
    for gpu in gpus.split(","):
        try:
            with warnings.catch_warnings():
                # It warns where it can't tell, and returns all cores; of a UUID, the warning itself fails.
                warnings.simplefilter("error")
                cores |= set(utils.get_cpu_affinity(int(gpu) if gpu.isdecimal() else gpu))
        except Exception as error:  # noqa: BLE001 - the driver's errors are many, and a trainer works on any core
            logger.info("which cores are near GPU %s is not known (%s): its trainer may use all", gpu, error)
            return ()
    # What a batch system or `taskset` left to this process: setting others would take cores of somebody else.
    cores &= os.sched_getaffinity(0)
    if not cores:
        return ()
    from dask_cuda.plugins import CPUAffinity

    return (CPUAffinity(sorted(cores)),)


def _utils() -> Any:
    try:
        import dask_cuda.utils
    except ImportError as error:
        raise InvalidInput(
            f"trainers by dask-cuda were asked for, and dask-cuda can't be imported here ({error}): "
            "pip install 'daskevo[cuda]', or leave cuda out"
        ) from error
    return dask_cuda.utils


def _check_numbers(chosen: list[str], count: int) -> None:
    wrong = [gpu for gpu in chosen if gpu.isdecimal() and int(gpu) >= count]
    if wrong:
        raise ClusterError(
            f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']!r} names GPU {', '.join(wrong)}, and this "
            f"machine has {count}, numbered from 0: correct it, or unset it to use all",
            gpus=count,
        )


def _all_gpus(utils: Any, count: int) -> list[str]:
    """Return the numbers of GPUs, or the ids of MIG instances: CUDA uses one of those per process, by its id alone.

    Where some GPUs are cut into instances and others are not, CUDA_VISIBLE_DEVICES has to name what is to be used.
    """
    _, instances = utils.get_gpu_count_mig(return_uuids=True)
    if not instances:
        return [str(number) for number in range(count)]
    return [uuid.decode() if isinstance(uuid, bytes) else str(uuid) for uuid in instances]


def find_gpus(cuda: bool = False) -> list[str]:
    """Return ids of the GPUs that trainers may use.

    Parameters
    ----------
    cuda:
        Let dask-cuda say, for which there have to be some.

    Raises
    ------
    InvalidInput, ClusterError
        If dask-cuda was asked for, and is missing, or there is no GPU.
    """
    if not cuda:
        return visible_gpus()
    return cuda_gpus()
