"""Every error that daskevo raises on purpose.

::

    DaskevoError
    ├── InvalidInput (also ValueError)      what was passed can't be used: change the call
    │   ├── InvalidName                     a model id, label, scope or run name that isn't allowed
    │   ├── ModelNotFresh                   a compiled or trained model was given to `inherit`
    │   ├── NotFinite                       weights to be stored that hold nan or inf
    │   ├── CannotFlatten                   a Keras model without an architecture graph
    │   ├── CannotRebuild                   an architecture record that can't be turned into a model here
    │   ├── CandidateRejected               choices that don't go together: the space draws again
    │   ├── InvalidMutation                 a model graph can't be changed so: a cycle, a missing node, ...
    │   ├── InvalidProblem                  a problem file or object without the Protocol's parts
    │   └── UnknownProblem                  no problem of that name
    ├── RepositoryError                     the repository can't do what was asked
    │   ├── UnknownModel                    no model of that id was ever stored
    │   ├── ModelRetired                    the model was stored, and has been retired
    │   ├── ModelLost                       the model's shard, or tensors it inherits, are gone for good
    │   ├── SnapshotGone                    a snapshot that can't be read any more: train again what it stood for
    │   ├── ModelExists                     the id is taken by a published or retired model
    │   ├── AttemptOver                     the attempt ended (with its task, client or generation) unpublished
    │   ├── PutFailed                       nothing became visible, nothing leaks: put may be called again
    │   ├── PutUnknown                      no answer in time; `repository.status` will tell
    │   ├── ScopeMismatch                   a scope used with another objective than it was made with
    │   ├── DurabilityMismatch              a root opened with another durability than it was made with
    │   ├── RootUnusable                    the root folder is missing, not writable, not seen by a host, or full
    │   │   └── QuotaReached                there is room on the disk, but the repository may take no more
    │   ├── RepositoryTaken                 another job has this repository open
    │   │   └── SchedulerUnaskable          the job that opened it last can't be asked from here whether it still has
    │   ├── ShardFenced                     the shard has another owner: this one stops serving it
    │   └── CorruptRecord                   a file that is not what was written: cut, damaged or hostile
    │       ├── LaterVersion                a whole file that a later daskevo wrote: use one that reads it
    │       └── ShardDamaged                a shard's records can't be read: restore its folder, others are served
    ├── ClusterError                        the Dask cluster can't do what was asked
    │   ├── SchedulerUnreachable
    │   ├── BatchSystemError                the batch system is missing, refuses a job, or doesn't start it
    │   ├── NotDeployed                     no daskevo plugins on this cluster or worker
    │   ├── NoProvider                      no worker with the resource `provider`
    │   ├── NoTrainer                       no worker with the resource `evaluation`
    │   ├── VersionMismatch                 scheduler, client and workers run different versions
    │   ├── ShardUnavailable                no provider answered for a shard in time
    │   └── ProviderFull                    a provider has no memory for what is sent to it
    └── RunError                            a search can't start or go on
        ├── RunFolderUnusable               the run's folder is missing, not writable, or of another format
        ├── RunMismatch                     the folder holds a run of another problem, space, seed or strategy
        ├── RepositoryFull                  the repository has no room for what a run makes: it goes on when there is
        ├── TrialFailed                     a trial of a study can't be had: its training failed
        └── RunFailed                       too many evaluations failed, or the space is exhausted

Each message says what was asked, what was found and what to do. Each error keeps the facts as attributes and
survives pickling between processes.

One warning has a class of its own, for ``warnings.filterwarnings``: :class:`LayerCodeChanged`.
"""

from __future__ import annotations

from typing import Any


class LayerCodeChanged(UserWarning):
    """A model was rebuilt from its record with a layer of the user's whose code has changed since it was stored.

    It has the stored weights, but may compute something else with them than the model that was scored. The warning
    comes once per model and process.
    """


class DaskevoError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    message:
        What was asked, what was found, what to do.
    **facts:
        The facts of the message (ids, paths, bytes, addresses), readable as attributes.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Not `self.facts`: an error that is just being made or unpickled has none, and would end up here again and
        # again.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__} has no fact named {name!r}; it has {sorted(facts)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[DaskevoError], message: str, facts: dict[str, Any]) -> DaskevoError:
    return kind(message, **facts)


class InvalidInput(DaskevoError, ValueError):
    """What was passed can't be used: change the call."""


class InvalidName(InvalidInput):
    """A model id, label, scope or run name that isn't allowed."""


class ModelNotFresh(InvalidInput):
    """A compiled or trained model was given to `inherit`, which freezes layers and so needs an uncompiled one."""


class NotFinite(InvalidInput):
    """Weights to be stored that hold nan or inf: whoever inherited them would learn nothing.

    `numbers` are those of the tensors.
    """


class CannotFlatten(InvalidInput):
    """A Keras model that has no architecture graph daskevo can compare.

    `reason` is one of the words of ``daskevo.models.rejections``.
    """


class CannotRebuild(InvalidInput):
    """An architecture record that can't be turned into a Keras model here."""


class CandidateRejected(InvalidInput):
    """Choices that don't go together, as a space or a builder says: `raise CandidateRejected("kernel beyond input")`.

    The space draws again; `reason` is why.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **{"reason": message, **facts})


class InvalidMutation(InvalidInput):
    """A change that a model graph can't take, such as an edge that would make a cycle.

    `reason` is one of the words of :data:`daskevo.space.wiring.REASONS`; `nodes` are those concerned.
    """


class InvalidProblem(InvalidInput):
    """A problem file or object without the parts that the Protocol asks for."""


class UnknownProblem(InvalidInput):
    """No problem of that name."""


class RepositoryError(DaskevoError):
    """The repository can't do what was asked."""


class UnknownModel(RepositoryError, KeyError):
    """No model of that id was ever stored."""

    # KeyError's shows the message in quotes.
    __str__ = Exception.__str__


class ModelRetired(RepositoryError):
    """The model was stored, and has been retired since."""


class ModelLost(RepositoryError):
    """The model's shard, or tensors that it inherits, are gone for good."""


class SnapshotGone(RepositoryError):
    """A snapshot that can't be read any more, or never was stored: train again what it stood for.

    `reason` is ``"unknown"``, ``"retired"``, ``"lost"`` or ``"damaged"``; the error's cause has the facts.
    """


class ModelExists(RepositoryError):
    """The id is taken by a published or retired model."""


class AttemptOver(RepositoryError):
    """The attempt ended (its task, client or generation did) before it was published."""


class PutFailed(RepositoryError):
    """Nothing became visible and nothing leaks: put may be called again."""


class PutUnknown(RepositoryError):
    """No answer in time; `repository.status` will tell."""


class ScopeMismatch(RepositoryError):
    """A scope used with another objective than it was made with."""


class DurabilityMismatch(RepositoryError):
    """A root opened with another durability than it was made with."""


class RootUnusable(RepositoryError):
    """The root folder is missing, not writable, not seen by a host, or full."""


class QuotaReached(RootUnusable):
    """The repository's quota leaves no room for what was to be stored: nothing was written."""


class RepositoryTaken(RepositoryError):
    """Another job has this repository open."""


class SchedulerUnaskable(RepositoryTaken):
    """The job that opened it last can't be asked from here whether it still has it open: TLS, or another process."""


class ShardFenced(RepositoryError):
    """The shard has another owner since: this one stops serving it, and tells the coordinator."""


class CorruptRecord(RepositoryError):
    """A file that is not what was written: cut, damaged or hostile."""


class LaterVersion(CorruptRecord):
    """A file, or a record in one, of a later version: nothing is damaged, a later daskevo reads it."""


class ShardDamaged(CorruptRecord):
    """The records of a shard can't be read, so nobody serves it: its folder must be restored; others are served."""


class ClusterError(DaskevoError):
    """The Dask cluster can't do what was asked."""


class SchedulerUnreachable(ClusterError):
    """No Dask scheduler answers at that address."""


class BatchSystemError(ClusterError):
    """There is no such batch system here, it refuses a job, a job doesn't start, or what it starts doesn't come."""


class NotDeployed(ClusterError):
    """No daskevo plugins on this cluster or worker."""


class NoProvider(ClusterError):
    """No worker with the resource `provider`."""


class NoTrainer(ClusterError):
    """No worker with the resource `evaluation`."""


class VersionMismatch(ClusterError):
    """Scheduler, client and workers run different versions."""


class ShardUnavailable(ClusterError):
    """No provider answered for a shard in time."""


class ProviderFull(ClusterError):
    """A provider has no memory for the tensors that are sent to it: fewer at once, or a larger budget."""


class RunError(DaskevoError):
    """A search can't start or go on."""


class RunFolderUnusable(RunError):
    """The run's folder is missing, not writable, or of another format."""


class RunMismatch(RunError):
    """The folder holds a run of another problem, space, seed or strategy."""


class RepositoryFull(RunError):
    """The repository has no room for what a run makes: nothing is lost, the run goes on when there is room."""


class TrialFailed(RunError):
    """A trial of a study can't be had, because a stage that it needs failed; others go on."""


class RunFailed(RunError):
    """Too many evaluations failed, or the space is exhausted."""
