"""What all benchmarks share: the command's options, tables, plots, quantiles."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import lifetimes, simulated
from benchmarks.shared.command import Say, measured
from benchmarks.shared.outcome import Outcome
from benchmarks.shared.timing import quantile, timed
from benchmarks.transfer import arms as transfer_arms
from benchmarks.tuning import arms as tuning_arms
from daskevo.errors import InvalidInput
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.measurements.plots import check_plot, save_plot
from daskevo_workflows.measurements.tables import FigureTable, figure

TABLE = FigureTable("Speed, in µs", ["what", "mean"], [["index", "8.00"], ["a scan", "2,500"]], ["Smaller is better."])


@pytest.mark.parametrize("root", [tuning_arms.ROOT, transfer_arms.ROOT, simulated.DOCS.parent], ids=str)
def test_benchmarks_find_the_checkout(root: Path) -> None:
    assert (root / "benchmarks" / "__init__.py").exists()
    assert (root / "docs" / "measured" / "costs-flights.json").exists()


def test_benchmarks_find_the_problem_that_is_served_for_long() -> None:
    assert lifetimes.PROBLEM.exists()


def draw(drawing) -> None:
    drawing.subplots().plot([1, 2], [3, 4])


@pytest.fixture
def group() -> click.Group:
    @click.group()
    def commands() -> None: ...

    @commands.command()
    @measured
    def toy(quick: bool, say: Say) -> Outcome:
        """A toy."""
        say("measuring")
        return Outcome(machine_line(["no-such-package"]), [TABLE], {"quick": quick}, draw)

    return commands


def test_a_table_on_stdout_and_what_goes_on_on_stderr(group: click.Group) -> None:
    result = CliRunner().invoke(group, ["toy"])
    assert result.exit_code == 0
    machine, rest = result.stdout.split("\n", 1)
    assert "Python 3." in machine
    assert machine.endswith("no no-such-package")
    assert rest.strip() == str(TABLE)
    assert result.stderr == "measuring\n"


def test_json_and_quick(group: click.Group) -> None:
    result = CliRunner().invoke(group, ["toy", "--json", "--quick"])
    assert json.loads(result.stdout) == {"quick": True}
    assert str(TABLE) in result.stderr


def test_a_plot_that_cannot_be_written_is_refused_before_measuring(group: click.Group, tmp_path: Path) -> None:
    for path in (tmp_path / "plot.txt", tmp_path / "nowhere" / "plot.svg"):
        result = CliRunner().invoke(group, ["toy", "--plot", str(path)])
        assert result.exit_code == 2
        assert "can't plot into" in result.stderr
        assert "measuring" not in result.stderr


@pytest.mark.parametrize(("name", "start"), [("plot.svg", b"<?xml"), ("plot.png", b"\x89PNG")])
def test_plots_are_the_same_bytes_each_time(group: click.Group, tmp_path: Path, name: str, start: bytes) -> None:
    path = tmp_path / name
    result = CliRunner().invoke(group, ["toy", "--plot", str(path)])
    assert result.exit_code == 0
    first = path.read_bytes()
    assert first.startswith(start)
    save_plot(draw, path)
    assert path.read_bytes() == first


def test_matplotlib_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("daskevo_workflows.measurements.plots.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"daskevo\[dashboard\]"):
        check_plot(tmp_path / "plot.svg")


def test_tables_are_aligned_markdown() -> None:
    assert str(TABLE).splitlines() == [
        "**Speed, in µs**",
        "",
        "| what   |  mean |",
        "|--------|------:|",
        "| index  |  8.00 |",
        "| a scan | 2,500 |",
        "",
        "Smaller is better.",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (999.6, "1,000"), (0.09996, "0.100"), (12.345, "12.3"), (float("nan"), "–"), (-2.5, "-2.50")],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [quantile(values, share) for share in (0.0, 0.07, 0.5, 0.99, 1.0)] == [1.0, 7.0, 50.0, 99.0, 100.0]


def test_what_comes_before_each_call_is_called_before_each_call() -> None:
    calls: list[str] = []
    times = timed(lambda: calls.append("call"), repeat=2, before=lambda: calls.append("before"))
    assert calls == ["before", "call"] * 2
    assert all(seconds >= 0 for seconds in times)
