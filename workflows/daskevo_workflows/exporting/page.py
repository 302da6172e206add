"""The page of a model card, as Markdown. Names and values come from records: none of them may be markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from daskevo.types import JSON
from daskevo_plugins.formatting import plain, say_bytes, say_count, say_quality, say_seconds, say_share, sentence

SHOWN_OPTIONS = 12
"""Options of a choice that are listed, at most, and so on; all are in the facts."""
SHOWN_LAYERS = SHOWN_CHOICES = 400
SHOWN_LINEAGE = SHOWN_WORDS = 50
NOT_KNOWN = "not known"
UNLISTED = "not in the record: the space's code makes them"
"""Options of a choice that depend on those before it, or on the model so far."""


def page_of(facts: Mapping[str, Any]) -> str:
    """Return the page of a card's facts, without the facts themselves."""
    quality, size, file = facts["quality"], facts["size"], facts.get("file")
    better = {"max": "higher is better", "min": "lower is better"}.get(str(quality["direction"]), "")
    said = f"{_md(quality['metric'])} {say_quality(quality['value'])} ({better})" if quality["metric"] else NOT_KNOWN
    parts = [
        f"# {_md(facts['model'])}\n",
        _table(
            ("", ""),
            [
                ("quality", said),
                ("at step", f"{quality['step']:,}"),
                ("other metrics", _metrics(quality)),
                ("parameters", f"{size['parameters']:,} in {say_count(size['layers'], 'layer')}"),
                ("bytes", f"{say_bytes(size['bytes'])}; {_stored(size)}"),
                ("labels", _enumerated(map(_md, facts["repository"]["labels"])) or "none"),
                ("made by", _versions(facts.get("versions"))),
            ],
        ),
        "" if file is None else _file(file),
        "## Space\n",
        _space(facts["space"]),
        "## Data\n",
        _data(facts["data"]),
        "## Training\n",
        _training(facts),
        "## Lineage\n",
        _lineage(facts["lineage"], facts["contributors"]),
        "## Layers\n",
        _layers(facts["layers"]),
    ]
    if facts["unknown"]:
        parts += ["## What is not known\n", _listed(_md(line) for line in facts["unknown"])]
    return "\n".join(part for part in parts if part)


def _stored(size: Mapping[str, Any]) -> str:
    stored = say_bytes(size["stored_bytes"])
    if size["stored_bytes"] > size["bytes"]:
        return f"{stored} stored, with the state of its training"
    return f"{stored} of them stored for it alone"


def _file(file: Mapping[str, Any]) -> str:
    custom = file.get("custom") or []
    needs = (
        f"It has layers of its author's own ({_enumerated(map(_md, custom))}): import the module that registers them "
        "first, or pass `custom_objects`.\n"
        if custom
        else ""
    )
    changed = file.get("changed_code") or []
    other = (
        f"The code of its layers {_enumerated(map(_md, changed))}, or a value that it reads, was another when this was "
        "exported than when the model was stored: its quality was measured with the code of then.\n"
        if changed
        else ""
    )
    return (
        f"## How to load it\n\nThe file `{_code(file['name'])}`, {say_bytes(file['bytes'])}, SHA-256 "
        f"`{_code(file['sha256'])}`, needs no daskevo:\n\n```python\n{file['load']}```\n\n"
        f"The model comes uncompiled: compile it to train or evaluate it. {needs}{other}"
        f"Exported {_md(file['written'])}.\n"
    )


def _space(space: Any) -> str:
    if space is None:
        return f"{sentence(NOT_KNOWN)}\n"
    size = "" if space["size"] is None else f", {_md(space['size'])} candidates"
    head = f"{_md(space['name'])}{size}.\n"
    chosen, choices = space["chosen"] or {}, space["choices"] or {}
    if not chosen and not choices:
        return head
    rows = [
        (_md(name), _value(chosen[name]) if name in chosen else "–", _options(choices.get(name)))
        for name in dict.fromkeys([*chosen, *choices])
    ]
    return f"{head}\n{_table(('choice', 'chosen', 'options'), rows, SHOWN_CHOICES)}"


def _options(options: Any) -> str:
    if not isinstance(options, list):
        return UNLISTED
    return _enumerated(map(_value, options), SHOWN_OPTIONS)


def _data(data: Mapping[str, Any]) -> str:
    rows = [("scope", _md(data["scope"])), ("problem", _md(data["problem"] or NOT_KNOWN))]
    if data["problem_digest"]:
        rows.append(("digest of the problem", f"`{_code(data['problem_digest'])}`"))
    if data["settings"]:
        rows.append(("settings", _pairs(data["settings"])))
    for name in ("inputs", "outputs"):
        if data.get(name):
            rows.append((name, _tensors(data[name])))
    for name in ("train", "validation"):
        if data.get(name):
            rows.append((name, "; ".join(f"{side} {_tensors(data[name][side])}" for side in ("x", "y"))))
    if data.get("digest"):
        rows.append(("digest of the training data", f"`{_code(data['digest'])}`"))
    return _table(("", ""), rows)


def _tensors(specs: Iterable[Mapping[str, Any]]) -> str:
    found = []
    for spec in specs:
        shape = " × ".join("any" if size is None else str(size) for size in spec["shape"])
        found.append(f"{_md(spec['name'])} ({shape or 'one value'}, {_md(spec['dtype'])})".lstrip())
    return ", ".join(found)


def _training(facts: Mapping[str, Any]) -> str:
    training, inherited, run = facts["training"], facts["inherited"], facts["run"]
    rows = [
        ("steps", f"{training['steps']:,}"),
        ("epochs", _md(training["epochs"] or NOT_KNOWN)),
        ("batch size", _md(training["batch_size"] or NOT_KNOWN)),
        ("seed", _md(NOT_KNOWN if training["seed"] is None else training["seed"])),
        ("took", say_seconds(training["seconds"]) if training["seconds"] is not None else NOT_KNOWN),
        ("ended", _md(training["ended"] or NOT_KNOWN)),
        ("inherited from", _md(inherited["ancestor"] or "nobody")),
    ]
    if training["hyperparameters"] is not None:
        rows.append(("hyper-parameters", _value(training["hyperparameters"], 1000)))
    if inherited.get("said"):
        rows.append(("inherited", _md(inherited["said"])))
    if run is None:
        rows.append(("run", NOT_KNOWN))
    else:
        strategy = f", by the strategy {_md(run['strategy'])}" if run["strategy"] else ""
        rows.append(("run", f"{_md(run['name'])} ({_md(run['id'])}) in {_md(run['folder'])}{strategy}"))
        rows.append(("trained with", _versions(run["versions"])))
    return _table(("", ""), rows)


def _lineage(lineage: Sequence[Mapping[str, Any]], shares: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            "" if place == 0 else "←",
            _md(entry["model"]),
            say_quality(entry["quality"]),
            f"{entry['step']:,}",
            _md(entry["state"]),
            _md(entry["ended"] or "–"),
        )
        for place, entry in enumerate(lineage)
    ]
    text = _table(("", "model", "quality", "steps", "state", "ended"), rows, SHOWN_LINEAGE)
    parts = [
        (_md(share["model"]), str(share["tensors"]), say_bytes(share["bytes"]), say_share(share["share"]))
        for share in shares
    ]
    return f"{text}\n{_table(('weights from', 'tensors', 'bytes', 'share'), parts, SHOWN_LINEAGE)}"


def _layers(layers: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            _md(layer["name"]),
            _md(layer["kind"]),
            f"{layer['parameters']:,}",
            _enumerated(map(_md, layer["trained_in"])) or "–",
            f"{layer['steps']:,}" if layer["trained_in"] else "–",
            "inherited" if layer["inherited"] else "trained" if layer["trained_in"] else "–",
        )
        for layer in layers
    ]
    return _table(("layer", "kind", "parameters", "last trained in", "steps", "here"), rows, SHOWN_LAYERS)


def _versions(versions: Any) -> str:
    return _pairs(versions) if isinstance(versions, Mapping) and versions else NOT_KNOWN


def _metrics(quality: Mapping[str, Any]) -> str:
    figures = {
        name: say_quality(value) if isinstance(value, float) else value
        for name, value in quality["metrics"].items()
        if name != quality["metric"]
    }
    return _pairs(figures)


def _pairs(values: Mapping[str, Any]) -> str:
    return _enumerated(f"{_md(name)} {_value(value)}" for name, value in values.items()) or "none"


def _value(value: JSON, limit: int = 80) -> str:
    return _md(value if isinstance(value, str) else json.dumps(value), limit)


def _enumerated(words: Iterable[str], most: int = SHOWN_WORDS) -> str:
    found = list(words)
    return ", ".join([*found[:most], *([f"and {len(found) - most} more"] if len(found) > most else [])])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], most: int = SHOWN_WORDS) -> str:
    shown = [f"| {' | '.join(row)} |" for row in rows[:most]]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *shown]
    return "\n".join(lines) + "\n" + (f"\nand {len(rows) - most} more.\n" if len(rows) > most else "")


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


_MARKUP = re.compile(r"([\\`*_{}\[\]()#|~!$@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""What means something in Markdown, or is part of an address, of which code hosts make links."""
_LISTED = re.compile(r"^(\d{0,9})([-+=.])(?=[-+=\s]|$)")
"""What makes a list, a line or a heading at the beginning."""


def _md(text: object, limit: int = 300) -> str:
    r"""Return text that Markdown, and HTML in it, show as it is.

    Examples
    --------
    >>> print(_md("<b>|*x*"))
    &lt;b&gt;\|\*x\*
    """
    escaped = _LISTED.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", plain(text, limit)))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: object) -> str:
    """Return text for a code span."""
    return plain(text, 300).replace("`", "'").replace("|", "/")
