"""Transfer data of recorded spaces: what samplers that model learn before anything was measured."""

import math

from recording_support import made_up_recording

from autotune.contrib.spaces.transfer import read_recordings, transfer_for
from autotune.core.plugs.family import Family
from autotune.registry import family_for
from autotune.store.recording import write_recording
from autotune.tuning.samplers.search import transfer_from
from autotune.worker.loading.reading import open_payload, partition


class Plain(Family):
    """A family without arithmetic of its own."""

    name = "matmul"


def test_recordings_teach_only_their_own_family_and_only_samplers_that_listen(tmp_path):
    write_recording(tmp_path / "a.xz", made_up_recording())
    (tmp_path / "b.xz").write_bytes(b"none")
    assert [recording.payload for recording in read_recordings([tmp_path])] == ["mine"]
    assert transfer_from([tmp_path], "tpe") is None
    taught = transfer_from([tmp_path], "model")
    (other,) = partition(open_payload("gelu,rows=8,cols=64")).tasks
    assert taught(family_for(other)) == []
    assert taught(Plain())
    assert transfer_from([tmp_path / "none"], "model") is None


def test_lessons_are_logarithms_over_the_best_and_failures_are_infinite():
    recording = made_up_recording()
    transfer = transfer_for(Plain(), [recording])
    excess = sorted(prior.excess for prior in transfer)
    assert excess[0] == 0
    assert math.isinf(excess[-1])
    assert len(transfer) == len(recording.trials)
    assert {"tile_m", "pack_b"} <= set(transfer[0].features)
