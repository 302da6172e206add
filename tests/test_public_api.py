"""The names that users may rely on; a new one, or one that goes, is a decision and shows up here."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

PUBLIC = {
    "daskevo": ["Repository", "batch_cluster", "errors", "get_repository", "local_cluster", "open"],
    "daskevo.repository": [
        *("EarlyReservation", "Inheritance", "InheritanceReport", "Matches", "ModelSummary", "Repository", "Snapshot"),
        *("SnapshotSummary", "StoredSnapshot", "get_repository", "open_repository"),
    ],
    "daskevo.search": [
        *("BEST_MATCH", "AgedEvolution", "AsynchronousHalving", "Deduplicate", "Failure", "FailureKind", "Filter"),
        *("Grid", "Hyperband", "MedianStopping", "MultiObjectiveEvolution", "NonAgedEvolution", "Optuna"),
        *("PopulationBasedTraining", "Random", "Reinforce", "Repeat", "Replay", "Report", "Request", "Retry", "Stop"),
        *("Strategy", "SuccessiveHalving", "TransferReport", "View", "model_id", "usable"),
    ],
    "daskevo.space": [
        *(
            "UNBOUNDED",
            "Builder",
            "Candidate",
            "Chain",
            "Choice",
            "Choose",
            "InputMutator",
            "InsertingMutator",
            "Layer",
        ),
        *("Match", "ModelGraph", "ModelSpace", "MutatedGraphs", "Mutator", "Node", "NodePattern", "OperatorMutator"),
        *("Pattern", "Pick", "Region", "Size", "Space", "cell_of", "layer", "named", "of_kind", "where"),
        *("candidate_of", "configuration_of", "from_configuration_space", "to_configuration_space"),
        *("from_vectors", "to_vectors", "neighbours"),
    ],
    "daskevo.testing": [
        *(
            "HOSTILE_NAMES",
            "TierContract",
            "check_connection",
            "check_shard_store",
            "check_space",
            "check_strategy",
            "check_tensors",
        ),
        "check_transport",
    ],
    "daskevo.tuning": [
        "architectures",
        *(
            "ArchitectureSpace",
            "Change",
            "KeptSnapshot",
            "Kind",
            "begun_with",
            "changes_of_kind",
            "evictions",
            "kept_snapshots",
            "label_steps",
            "make_room",
            "stored_bytes",
            "LabelStep",
            "needed_snapshots",
        ),
        *("AllAtOnce", "Answer", "ConditionalSpace", "Configuration", "ConfigurationSpace", "Constant", "Cosine"),
        *("Costs", "Cyclic", "Estimate", "Exponential", "GridSpace", "Halt", "Instruction"),
        *("Joined", "Linear", "Machine", "MultiStep", "Outcome", "PlanNode", "Policy"),
        *("Promises", "Refuse", "Run", "Save", "Scheduler", "SearchPlan", "SimulatedStudy"),
        *("StageTree", "State", "Step", "StepCount", "StepSequence", "TrainingStage"),
        *("Trajectory", "Trial", "TrialStanding", "Unit", "Waiter", "concatenate", "conditional", "count_steps"),
        *("grid", "sequence_from_json", "simulate", "stage_tree", "warmup"),
    ],
    "daskevo_plugins.deephyper": [
        *("CBO", "AgedEvolution", "DaskEvaluator", "DaskStorage", "RandomSearch", "RegularizedEvolution"),
        *("TransferRunFunction", "follow", "options_of", "space_of", "to_hp_problem", "transfer_run_function"),
    ],
    "daskevo_workflows.nas": [
        *("STRATEGIES", "Found", "Progress", "Result", "Transfer", "figures", "frames", "look", "refine", "search"),
    ],
    "daskevo_workflows.exporting": [
        *("FORMATS", "Card", "Exported", "export_model", "load_safetensors", "model_card", "read_card"),
    ],
    "daskevo_workflows.tune": ["FoundTrial", "Study", "StudyResult", "controller", "study"],
    "daskevo_workflows.stage_training": [
        *("Training", "TrainingLoop", "begin", "check", "check_exact", "data_digest", "deterministic", "resume"),
    ],
    "daskevo_workflows.tabular": ["Architecture", "Table", "TableRun", "load_table", "run_on_table"],
    "daskevo_workflows.problems": [
        "BUILT_IN",
        "Data",
        "Problem",
        "ProblemReference",
        "check_problem",
        "load_problem",
        "refer",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what DeepHyper imports
def test_exported_names(module: str) -> None:
    if module == "daskevo_plugins.deephyper":
        pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")
    loaded = importlib.import_module(module)
    assert sorted(loaded.__all__) == sorted(PUBLIC[module])
    for name in loaded.__all__:
        assert getattr(loaded, name) is not None


def test_importing_daskevo_is_light() -> None:
    """Neither TensorFlow nor Dask is imported, nor anything printed, by `import daskevo`."""
    heavy = "{'keras', 'tensorflow', 'dask', 'distributed', 'numba'}"
    code = f"import sys, daskevo; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("[]\n", "")


def test_plugins_are_found_by_entry_point() -> None:
    found = {point.name: point.load().__name__ for point in importlib.metadata.entry_points(group="daskevo.plugins")}
    assert found == {"coordinator": "CoordinatorPlugin", "provider": "ProviderPlugin"}
