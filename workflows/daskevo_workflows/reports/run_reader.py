"""Read a run's record into the series that its report shows, during the run or later."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from daskevo.errors import CorruptRecord, DaskevoError
from daskevo.freeze_policy import FreezePolicy
from daskevo.runs import Chosen, Event, RunInfo, RunView, SessionRow, UnitRow
from daskevo.search import Report, Request
from daskevo.space import Space
from daskevo.types import JSON, Objective
from daskevo_plugins.formatting import say_bytes, say_count
from daskevo_workflows.execution.event_kinds import SESSION, STOPPED, STORAGE
from daskevo_workflows.execution.machine_load import LOAD
from daskevo_workflows.reports.recorded import Recorded
from daskevo_workflows.reports.series import EvaluationRow, Happening, RunSeries, StorageSample


def read_run(folder: Path) -> RunSeries:
    """Read one run as a consistent snapshot.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run that can be read.
    CorruptRecord
        If a row of a record is not what was written.
    """
    # All of one moment: the run may be going on, and a report without its request could not be placed.
    with RunView(folder) as view, view.still():
        recorded = Recorded.of(view)
    return series_of(recorded)


def series_of(recorded: Recorded) -> RunSeries:
    """Return the series of a run; raises CorruptRecord as :func:`read_run`."""
    sessions, requests, reports, times = recorded.sessions, recorded.requests, recorded.reports, recorded.times
    clock = RunningTime(sessions)
    identity = _compared(recorded.info.identity)
    goals = _objectives(identity.get("objective"))
    chosen = Chosen(identity.get("space"))
    by_number = {request.number: request for request in requests}
    skews = _skews(reports, times)
    # Units of other kinds, such as the query of a batch, serve several requests and say nothing of one evaluation.
    places = {unit.numbers[0]: unit for unit in recorded.units if unit.kind == "evaluate" and unit.numbers}
    rows = [
        _evaluation(
            report,
            by_number.get(report.number),
            places.get(report.number),
            times.get(report.number),
            clock,
            chosen,
            skews,
            goals[1:],
        )
        for report in reports
    ]
    return RunSeries(
        label=recorded.info.name,
        arm=_arm(identity.get("policy")),
        run_id=recorded.info.id,
        objective=goals[0],
        others=goals[1:],
        # By end and not by number: running bests and moving means follow the order in which results came.
        evaluations=tuple(sorted(rows, key=lambda row: (row.ended_s or 0.0, row.number))),
        storage=tuple(_samples(recorded.of_kind(STORAGE), clock)),
        happenings=tuple(happenings_of(recorded.events, clock, (STORAGE, SESSION, LOAD))),
        asked=_asked(recorded.of_kind(SESSION)),
        runtime_s=recorded.runtime_s,
        state=state_of(sessions, recorded.of_kind(STOPPED), len(requests) - len(reports)),
        facts=facts_of(recorded.info, chosen.space, sessions),
        identity=identity,
    )


class RunningTime:
    """Converts times into seconds during which a process ran the run; pauses between sessions are left out.

    Examples
    --------
    >>> clock = RunningTime([SessionRow(100.0, 110.0, "1", None), SessionRow(500.0, 530.0, "2", "closed")])
    >>> clock.at(105.0), clock.at(300.0), clock.at(501.0)
    (5.0, 10.0, 11.0)
    """

    def __init__(self, sessions: Sequence[SessionRow]) -> None:
        self._spans: list[tuple[float, float, float]] = []
        before = 0.0
        for session in sessions:
            self._spans.append((session.opened, session.last, before))
            # A clock that was set back between two writes must not take running time away.
            before += max(0.0, session.last - session.opened)

    def at(self, moment: float) -> float:
        """Return the running time at `moment`, in seconds since the first session was opened."""
        for (opened, last, before), (following, _, _) in pairwise([*self._spans, (float("inf"), 0.0, 0.0)]):
            if moment < following:
                # Between two sessions nothing runs: such a moment is the end of the earlier one.
                return before + min(max(0.0, moment - opened), max(0.0, last - opened))
        return 0.0


def _evaluation(
    report: Report,
    request: Request | None,
    unit: UnitRow | None,
    reported: float | None,
    clock: RunningTime,
    chosen: Chosen,
    skews: Mapping[str | None, float],
    others: Sequence[Objective],
) -> EvaluationRow:
    started = ended = None
    if report.status == "duplicate":  # nothing ran: its figures are those of the evaluation that it repeats
        ended = reported
    elif report.started is not None and report.ended is not None:
        skew = skews.get(report.worker, 0.0)
        started, ended = report.started + skew, report.ended + skew
    else:  # it ended without a word from its trainer
        ended = reported
        # The nearest that is known of its beginning: when Dask gave it to a worker, or when it was submitted.
        started = None if unit is None else unit.started or unit.submitted
    failure, transfer = report.failure, report.transfer
    return EvaluationRow(
        number=report.number,
        model_id=report.model_id,
        status=report.status,
        started_s=None if started is None else clock.at(started),
        ended_s=None if ended is None else clock.at(ended),
        worker=report.worker or (None if unit is None else unit.worker),
        quality=report.quality,
        step=report.step,
        reason="" if failure is None else f"{failure.kind}: {failure.message}",
        seconds=dict(report.seconds),
        asked_transfer=request is None or (request.transfer and (request.ancestor or request.continues) is not None),
        continues=None if request is None else request.continues,
        parent=None if request is None else request.parent,
        ancestor=report.ancestor,
        prefix=report.prefix,
        vertices=report.vertices,
        # A failed evaluation may have frozen layers, but left no model whose share could count.
        frozen_share=report.frozen_share if report.status == "finished" else None,
        parameters=report.parameters or None,
        own_bytes=report.own_bytes if report.full_bytes else None,
        full_bytes=report.full_bytes or None,
        no_more="" if transfer is None else transfer.reason,
        no_more_words="" if transfer is None else transfer.words,
        metrics={goal.metric: report.metrics[goal.metric] for goal in others if goal.metric in report.metrics},
        choices=_choices(chosen, request),
    )


def _skews(reports: Sequence[Report], times: Mapping[int, float]) -> dict[str | None, float]:
    """Return worker -> seconds to add to its clock to match the recording process, from its fastest report."""
    skews: dict[str | None, float] = {}
    for report in reports:
        reported = times.get(report.number)
        # The times of a duplicate are those of the evaluation that it repeats.
        if report.status != "duplicate" and report.ended is not None and reported is not None:
            # The fastest report is the best measure: it contains the least delay of the network and of a busy
            # scheduler.
            late = reported - report.ended
            skews[report.worker] = min(late, skews.get(report.worker, late))
    return skews


def _choices(chosen: Chosen, request: Request | None) -> dict[str, str]:
    if request is None:
        return {}
    try:
        return {name: say_json(value) for name, value in chosen.of(request).items()}
    except DaskevoError:
        return {}  # a candidate of another space, or of an older record: the report shows the rest


def _samples(events: Sequence[Event], clock: RunningTime) -> list[StorageSample]:
    samples = []
    for event in events:
        try:
            facts = event.facts
            samples.append(
                StorageSample(
                    clock.at(event.time),
                    int(facts["stored_bytes"]),
                    int(facts["full_copy_bytes"]),
                    int(facts["live_models"]),
                )
            )
        # Somebody may have edited the record; a report of wrong figures would be worse than none.
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"expected what the repository holds, found the event {event.facts!r:.120}") from error
    return samples


def _objectives(value: JSON) -> tuple[Objective, ...]:
    return Objective.parse_all(value if isinstance(value, (str, list)) and value else "max quality")


CONTROL = "no transfer"
"""How an arm that inherits nothing is called."""

STRETCHED = ("minimum_layers", "unfreeze_epochs", "stretch")


def _arm(policy: JSON) -> str:
    match policy:
        case {"transfer": False}:
            return CONTROL
        case {"transfer": True, "freeze": freeze}:
            more = [f"{name} {policy[name]}" for name in ("source", *STRETCHED) if policy.get(name)]
            what = FreezePolicy.recorded(freeze)
            return ", ".join(["inherit", f"freeze {what}", *(word.replace("_", " ") for word in more)])
        case _:
            return say_json(policy)


def _asked(events: Sequence[Event]) -> int | None:
    value = events[-1].facts.get("evaluations") if events else None
    return value if type(value) is int else None


def happenings_of(events: Sequence[Event], clock: RunningTime, left_out: Collection[str]) -> list[Happening]:
    """Return the events, without some kinds."""
    return [
        Happening(clock.at(event.time), event.kind, event.number, event.message)
        for event in events
        if event.kind not in left_out
    ]


def state_of(sessions: Sequence[SessionRow], stops: Sequence[Event], pending: int, noun: str = "evaluation") -> str:
    """Return whether a run is over, and what it left unfinished."""
    ended = sessions[-1].ended if sessions else "never started"
    if ended is None:
        return f"running, or killed; {say_count(pending, noun)} without a report"
    said = stops[-1].message if stops else ended
    if said == "KeyboardInterrupt":  # so said records of earlier versions
        said = ended
    # The message of the event says more than the word for the end of the session; one of them is enough where it holds
    # the other.
    words = said if ended == "finished" or ended in said else f"{ended}: {said}"
    return f"{words}; {say_count(pending, noun)} to be taken up again" if pending else words


def _compared(identity: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the parts of an identity that distinguish runs; digests of parts only help people find changes."""
    problem = identity.get("problem")
    if isinstance(problem, dict):
        problem = {name: part for name, part in problem.items() if name not in ("parts", "made")}
    return {**identity, "problem": problem} if "problem" in identity else dict(identity)


def facts_of(info: RunInfo, space: Space | None, sessions: Sequence[SessionRow]) -> dict[str, str]:
    """Return the facts about a run, by name."""
    facts: dict[str, str] = {}
    for name, value in info.identity.items():
        if name == "space" and space is not None:
            facts["space"] = f"{space.name}: {len(space.choices)} choices, {space.size} candidates"
        elif name == "space" and isinstance(value, dict) and "name" in value:
            facts["space"] = f"{value['name']}: choices that depend on each other"
        elif name == "problem" and isinstance(value, dict) and "name" in value:
            facts["problem"] = str(value["name"])
            # Digests of the problem's parts are for machines that compare; they would fill the table.
            if rest := {key: part for key, part in value.items() if key not in ("name", "parts", "made")}:
                facts["problem's settings"] = say_json(rest)
        else:
            facts[name] = say_json(value)
    facts |= {name: say_json(value) for name, value in info.about.items()}
    facts["started"] = datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    facts["sessions"] = str(len(sessions))
    facts["run"] = info.id
    return facts


def _say_part(name: str, value: JSON) -> str:
    return say_bytes(value) if name.endswith("_bytes") and type(value) is int else say_json(value)


def say_json(value: JSON) -> str:
    """Return a JSON value on one line for people: ``freeze = prefix, transfer = yes``."""
    match value:
        case dict():
            return ", ".join(f"{name} = {_say_part(name, part)}" for name, part in value.items()) or "none"
        case list():
            return ", ".join(say_json(part) for part in value) or "none"
        case bool():
            return "yes" if value else "no"
        case None:
            return "none"
        case str():
            return value
        case _:
            return json.dumps(value)
