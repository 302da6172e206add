"""Hypothesis strategies for everything that travels or is stored."""

from __future__ import annotations

from hypothesis import strategies as st

from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.types import ModelId, TensorSpec, Tick

models = st.sampled_from([ModelId(name) for name in ("a", "b", "attn-1", "A.b_c-d")])
ticks = st.builds(Tick, st.integers(0, 3), st.integers(0, 9))
labels = st.sampled_from(["user:kept", "best:run-1", "population:run (2)"])
label_ticks = st.dictionaries(labels, ticks, min_size=1)
numbers = st.frozensets(st.integers(0, 40), max_size=8)
digests = st.text("0123456789abcdef", min_size=32, max_size=32)
specs = st.builds(TensorSpec, st.tuples(st.integers(0, 4)), st.sampled_from(["float32", "bfloat16", "int8"]))
finite = st.floats(allow_nan=False, allow_infinity=False)
free = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def model_records(draw: st.DrawFn) -> ModelRecord:
    model = draw(models)
    entries = draw(st.lists(st.builds(OwnerEntry, models, st.integers(0, 20), digests, st.integers(0, 99)), max_size=5))
    owner_map = OwnerMap(tuple(entries))
    return ModelRecord(
        model,
        draw(ticks),
        draw(models),
        draw(st.none() | st.text()),
        owner_map,
        {number: draw(specs) for number in owner_map.own(model)},
        draw(ticks),
        draw(st.none() | st.just("max val_auc")),
        draw(st.none() | finite),
        draw(st.dictionaries(st.text(), free, max_size=2)),
        draw(st.integers(0, 99)),
        draw(st.none() | models),
        draw(st.none() | models),
        draw(free),
    )


records_of_models = model_records()
sizes = st.none() | st.integers(0, 2**40)
messages = st.one_of(
    st.builds(ask.Open, models),
    st.builds(ask.Status, models),
    st.builds(ask.Refer, models, st.none() | models, ticks, numbers),
    st.builds(ask.Restore, models, models, ticks, numbers),
    st.builds(ask.Drop, models, st.none() | models, ticks, st.none() | numbers),
    st.builds(ask.DropAttempt, st.none() | models, ticks),
    st.builds(ask.Stage, records_of_models, sizes),
    st.builds(ask.Publish, models, ticks, label_ticks),
    st.builds(ask.Put, records_of_models, label_ticks, sizes),
    st.builds(ask.Abort, models, ticks),
    st.builds(ask.Hold, models, labels, ticks),
    st.builds(ask.Release, models, labels, ticks),
    st.builds(ask.ReleaseLabel, labels, ticks),
    st.builds(ask.Retire, models, ticks),
    st.builds(ask.FinishRetirement, models, ticks),
)
uses = st.dictionaries(models, numbers, max_size=3)
label_tuples = st.lists(labels, unique=True).map(tuple)
maybe_ticks = st.none() | ticks
replies = st.one_of(
    st.just(say.Ok()),
    st.builds(
        say.Refused, st.sampled_from(["gone", "over"]), st.none() | ticks, st.none() | records_of_models, numbers
    ),
    st.builds(say.Opened, records_of_models, label_tuples),
    st.builds(say.Reserved, models, ticks),
    st.builds(say.Verdict, st.sampled_from(["aborted", "published", "lost"]), ticks, uses),
    st.builds(say.Labelled, st.sampled_from(["published", "retiring"]), label_tuples),
    st.builds(say.LabelGone, st.lists(models).map(tuple), st.lists(models).map(tuple)),
    st.builds(say.Standing, st.sampled_from(["unknown", "retired"]), st.none() | records_of_models, label_tuples),
)
records = st.one_of(
    st.builds(write.Generation, st.integers(0, 9), ticks),
    st.builds(write.Referred, models, st.none() | models, ticks, numbers),
    st.builds(write.Dropped, models, st.none() | models, ticks, numbers),
    st.builds(write.Staged, records_of_models, sizes),
    st.builds(write.Published, models, ticks, label_ticks),
    st.builds(write.Aborted, models, ticks),
    st.builds(write.LabelHeld, models, labels, ticks),
    st.builds(write.LabelsReleased, models, label_ticks),
    st.builds(write.Retiring, models, label_ticks),
    st.builds(write.LabelEnded, labels, ticks),
    st.builds(write.Retired, models),
    st.builds(
        write.Kept,
        records_of_models,
        st.sampled_from(["published", "retiring", "retired"]),
        sizes,
        numbers,
        label_ticks,
        label_ticks,
    ),
    st.builds(write.Tombstone.of, records_of_models),
)
