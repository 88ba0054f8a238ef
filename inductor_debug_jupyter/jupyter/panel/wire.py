"""Everything that the page may ask of Python, and what Python answers: the one wire of a panel.

A request is a custom message of the panel's comm, such as ``{"ask": "select", "id": 7, "selection": {…}}``;
:func:`read` turns it into one of the classes below, or raises what is wrong with it in one line. Each request gets
exactly one :class:`Done` or :class:`Failed` with its id; a long one may get several :class:`Progress` before. What a
request changes is seen in the parts of the panel's state (:mod:`~inductor_debug_jupyter.pipeline.views.panel_parts`),
which are sent before the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import msgspec

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, UsageError, in_a_line
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.views.view_types import Selection


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="ask"):
    """Something that the user did. ``id`` is the page's, for the answer."""

    id: int = 0


class Select(Request, frozen=True, kw_only=True, tag="select"):
    """Choose a finding, a node, a line or a kernel."""

    selection: Selection


class OpenTab(Request, frozen=True, kw_only=True, tag="open_tab"):
    """Open a tab."""

    tab: str


class ToggleQuickRun(Request, frozen=True, kw_only=True, tag="toggle_quick_run"):
    """Open or close the form of a quick run."""


class Dismiss(Request, frozen=True, kw_only=True, tag="dismiss"):
    """Take the error strip away."""


class RememberRoom(Request, frozen=True, kw_only=True, tag="remember_room"):
    """Keep the sizes that the user chose: the height in pixels, shares of the width by tab, columns that are off."""

    height: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    widths: dict[str, list[float]] = {}
    hidden: list[str] = []


class GraphRequest(Request, frozen=True, kw_only=True):
    """What is asked about a graph; with a ``side``, about one of the two in the Compare tab."""

    side: Literal["", "before", "after"] = ""


class ShowGraph(GraphRequest, frozen=True, kw_only=True, tag="show_graph"):
    """Draw another graph."""

    compile_id: str
    stage: str


class GraphAction(GraphRequest, frozen=True, kw_only=True, tag="graph_action"):
    """Open or close a ``box`` of the graph, or all of them, or colour it ``by`` something."""

    do: Literal["expand", "collapse", "expand_all", "collapse_all", "colour"]
    box: str = ""
    by: str = ""


class SearchGraph(GraphRequest, frozen=True, kw_only=True, tag="search_graph"):
    """Search the graph for a text."""

    text: str


class SelectNode(GraphRequest, frozen=True, kw_only=True, tag="select_node"):
    """Choose a node by its name: a search found it in a closed box, so the page does not know where it stands.

    In the Compare tab every choice is one of these; without a compile id and a stage it is in the graph on show.
    """

    node: str
    compile_id: str = ""
    stage: str = ""


class CompareStages(Request, frozen=True, kw_only=True, tag="compare_stages"):
    """Open the Compare tab with two stages of one compile."""

    compile_id: str
    before: str
    after: str


class ShowPair(Request, frozen=True, kw_only=True, tag="show_pair"):
    """Show another pair of graphs of the comparison, by its number in the list."""

    pair: int


class ShowDifference(Request, frozen=True, kw_only=True, tag="show_difference"):
    """Choose the nodes of one difference, by its number in the list."""

    difference: int


class ShowNodes(Request, frozen=True, kw_only=True, tag="show_nodes"):
    """List the nodes of another graph in the Code tab."""

    compile_id: str
    stage: str


class ShowDocument(Request, frozen=True, kw_only=True, tag="show_document"):
    """Show a kernel, IR or generated code in the Code tab."""

    document: str


class WouldRecompile(Request, frozen=True, kw_only=True, tag="would_recompile"):
    """Ask torch's guards whether ``function`` would recompile with the inputs ``changes``."""

    function: str
    changes: dict[str, str] = {}
    grad: bool = True


class ExplainRule(Request, frozen=True, kw_only=True, tag="explain_rule"):
    """Show the page of a rule, which is shipped with the package."""

    rule_id: str


class WriteReport(Request, frozen=True, kw_only=True, tag="write_report"):
    """Write one page with everything about the session."""


class BindNode(Request, frozen=True, kw_only=True, tag="bind_node"):
    """Make a node, or its kernel, variables of the user."""

    compile_id: str
    stage: str
    node: str
    kernel: bool = False


class ShowMemory(Request, frozen=True, kw_only=True, tag="show_memory"):
    """Draw the memory curve of another graph, by its number in the list."""

    graph: int


class ShowOutput(Request, frozen=True, kw_only=True, tag="show_output"):
    """Choose an output of the comparison."""

    path: str


class PickDiffCell(Request, frozen=True, kw_only=True, tag="pick_diff_cell"):
    """Say which elements a cell of the heatmap stands for."""

    path: str
    row: int
    column: int


class ShowDiffSlice(Request, frozen=True, kw_only=True, tag="show_diff_slice"):
    """Make another picture of an output whose tensors are still there."""

    path: str
    measure: str = "absolute"
    rows: int | None = None
    columns: int | None = None
    at: list[int] = []
    window: list[int] = []


class NodeChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node, and what a what-if does with it."""

    node: str
    compile_id: str
    stage: str
    do: Literal["cpu", "parts", "whole"]


class TryOut(Request, frozen=True, kw_only=True, tag="try_out"):
    """Run a what-if: the ``changes`` of the form, or one ``node``."""

    changes: dict[str, Any] = {}
    node: NodeChange | None = None


class ShowTrial(Request, frozen=True, kw_only=True, tag="show_trial"):
    """Choose a what-if that was run, by its number."""

    trial: int


class SaveTrial(Request, frozen=True, kw_only=True, tag="save_trial"):
    """Save a what-if as a session."""

    trial: int


class FixitRequest(Request, frozen=True, kw_only=True):
    """What is asked in the strip of fix-its, which is written anew afterwards."""


class CheckFixits(FixitRequest, frozen=True, kw_only=True, tag="check_fixits"):
    """Verify the fix-its of a finding."""

    finding: int


class ApplyFixit(FixitRequest, frozen=True, kw_only=True, tag="apply_fixit"):
    """Apply one of the fix-its that were offered."""

    offer: int


class UndoFixit(FixitRequest, frozen=True, kw_only=True, tag="undo_fixit"):
    """Take the last fix-it back."""


class FixAll(FixitRequest, frozen=True, kw_only=True, tag="fix_all"):
    """Search for a set of fix-its, and apply it."""


AnyRequest = (
    Select | OpenTab | ToggleQuickRun | Dismiss | RememberRoom
    | ShowGraph | GraphAction | SearchGraph | SelectNode
    | CompareStages | ShowPair | ShowDifference
    | ShowNodes | ShowDocument | WouldRecompile | BindNode | ShowMemory | ExplainRule | WriteReport
    | ShowOutput | PickDiffCell | ShowDiffSlice
    | TryOut | ShowTrial | SaveTrial
    | CheckFixits | ApplyFixit | UndoFixit | FixAll
)  # fmt: skip


class Done(msgspec.Struct, frozen=True, tag_field="answer", tag="done"):
    """The request was carried out; its results are in the state."""

    id: int


class Failed(msgspec.Struct, frozen=True, tag_field="answer", tag="failed"):
    """The request was not carried out; ``error`` says why in one line."""

    id: int
    error: str


class Progress(msgspec.Struct, frozen=True, tag_field="answer", tag="progress"):
    """What Python is doing for the request just now."""

    id: int
    text: str


Answer = Done | Failed
Handlers = dict[type[Request], Callable[[Any], None]]
"""What a pane does when it is asked: a class of request → its method."""


def read(content: object) -> Request:
    """The request that a message is.

    Raises:
        UsageError: it is none.
    """
    try:
        return cast(Request, msgspec.convert(content, AnyRequest))
    except msgspec.ValidationError as error:
        raise UsageError(f"the panel was asked something that it does not understand: {error}") from None


def written(answer: Answer | Progress) -> dict[str, Any]:
    """An answer as the content of a message."""
    return dict(msgspec.to_builtins(answer))


def id_of(content: object) -> int:
    """The id of a message, even of one that is no request; 0 without one."""
    number = content.get("id") if isinstance(content, dict) else 0
    return number if isinstance(number, int) else 0


def error_text(error: Exception) -> str:
    """The one line by which a panel says that something failed: ours as it is, another with its class."""
    lines = str(error).strip().splitlines()
    return plain(lines[0] if lines and isinstance(error, InductorDebugError) else in_a_line(error))
