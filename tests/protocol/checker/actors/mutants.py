"""Scripts of the product with one rule left out: steps that a script yields are carried out in another way."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from daskevo.protocol.messages import Abort
from daskevo.protocol.replies import Verdict
from daskevo.protocol.steps import AreOver, DeleteFiles, Script, Step, TakeSnapshot, Together, TryLater
from tests.protocol.checker.actors.language import Behaviour, changed


def without_second_try(script: Script[Any]) -> Script[Any]:
    """A script that ends where it would try again."""
    step = next(script)
    while not isinstance(step, TryLater):
        try:
            step = script.send((yield step))
        except StopIteration as stop:
            return stop.value


def without_abort(script: Script[Any]) -> Script[Any]:
    """A script that takes for aborted what it has not asked home about."""

    def instead(step: Step) -> Script[Any]:
        match step:
            case Together((Abort(_, attempt),)):
                return [Verdict("aborted", attempt)]
        return (yield step)

    return changed(script, instead)


def audit_without(rules: Behaviour, script: Script[Any]) -> Script[Any]:
    """An audit that keeps no rules but these."""

    def instead(step: Step) -> Generator[Any, Any, Any]:
        answer = yield step
        match step:
            case TakeSnapshot() if not rules.files_need_a_verdict:
                unnamed = {view.segment for view in answer.files} - answer.named_files
                yield DeleteFiles(tuple(sorted(unnamed)))
            case AreOver(attempts) if not rules.live_gets_no_verdict:
                return frozenset(attempts)
            case Together(questions):
                return [_verdict(rules, *pair) for pair in zip(questions, answer, strict=True)]
        return answer

    return changed(script, instead)


def _verdict(rules: Behaviour, question: Any, answer: Any) -> Any:
    if answer is None and not rules.silence_is_no_verdict:
        return Verdict("aborted", question.attempt)
    published = isinstance(answer, Verdict) and answer.state == "published"
    return None if published and not rules.drops_unused_of_published else answer
