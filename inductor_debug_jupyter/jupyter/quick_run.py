"""``quick_run()``: a form whose fields are those of ``QuickRun``, and the panel of the session that came out.

Everything it does is one call that a script can make too; the form says which.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import ipywidgets
import torch
from IPython.core.getipython import get_ipython

from inductor_debug_jupyter.jupyter.panel.widget_closing import close_all
from inductor_debug_jupyter.jupyter.panel.wire import error_text
from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.pipeline.adapters.lookup import adapter_names
from inductor_debug_jupyter.pipeline.devices import profile_names
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.quick_run import BUILT_IN, QuickRun
from inductor_debug_jupyter.pipeline.quick_run.run import DTYPES
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled

MADE_UP = "made up"
_TEXTS = {
    "alignment": ("Alignment", "such as 64"),
    "max_memory": ("Max memory", "such as 1GiB"),
    "dtypes": ("Only dtypes", "such as float16,bfloat16"),
    "deny": ("Without ops", "such as aten.cumsum"),
    "atol": ("atol", "as the dtype has it"),
    "rtol": ("rtol", "as the dtype has it"),
}
"""Field → its title, and its placeholder."""


def quick_run() -> QuickRunForm:
    """A form to run a model, one of yours or a small built-in one, and see its panel. Without a notebook: ``QuickRun``.

    Raises:
        InductorDebugError: there is no notebook to show it in.
    """
    if not hasattr(get_ipython(), "kernel"):
        raise InductorDebugError("no form here: in a script QuickRun(model=…, batch=8).run() does the same")
    return QuickRunForm()


class QuickRunForm(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no type information
    """The form.

    Args:
        namespace: where the user's models and tensors are; the notebook's by default.
        target: the target to begin with.
        on_session: called with the session of each run; by default its panel is shown below.
    """

    def __init__(
        self,
        namespace: dict[str, Any] | None = None,
        *,
        target: str = "",
        on_session: Callable[[DebugSession], None] | None = None,
    ) -> None:
        shell = get_ipython()
        self._namespace: dict[str, Any] = namespace if namespace is not None else getattr(shell, "user_ns", {})
        self._on_session = on_session or self._show_panel
        self.session: DebugSession | None = None
        """The session of the last run."""
        self.fields = _fields()
        self.run_button = ipywidgets.Button(description="Run", button_style="primary", icon="play")
        self.run_button.on_click(lambda _: self.run())
        self.run_button.layout.flex = "none"
        look = ipywidgets.Button(description="Look for new variables", tooltip="models and tensors of the notebook")
        look.on_click(lambda _: self.look())
        look.layout.width, look.layout.flex = "auto", "none"
        self.status = ipywidgets.HTML()
        self.status.layout.flex, self.status.layout.min_width = "1 1 0", "0"
        grid = ipywidgets.GridBox(children=list(self.fields.values()))
        grid.layout.grid_template_columns = "repeat(auto-fill, minmax(240px, 1fr))"
        grid.layout.grid_gap, grid.layout.width, grid.layout.overflow = "2px 14px", "100%", "visible"
        buttons = ipywidgets.HBox(children=[self.run_button, look, self.status])
        self._below = ipywidgets.VBox()
        form = ipywidgets.VBox(children=[grid, buttons])
        form.layout.padding, form.layout.overflow = "8px 10px", "visible"
        form.add_class("idj-quick-form")
        super().__init__(children=[form, self._below])
        self.look()
        self.fields["model"].value = self.fields["model"].options[0]
        self.fields["target"].value = target if target in profile_names() else ""

    def look(self) -> None:
        """Offer the models and tensors that the notebook has by now."""
        names = [name for name in self._namespace if not name.startswith("_")]
        models = [name for name in names if _is_model(self._namespace[name])]
        inputs = [name for name in names if _is_input(self._namespace[name])]
        for field, options in (("model", [*models, *BUILT_IN]), ("inputs", [MADE_UP, *inputs])):
            chosen = self.fields[field].value
            self.fields[field].options = options
            if chosen in options:
                self.fields[field].value = chosen

    def read(self) -> QuickRun:
        """The run that the fields describe.

        Raises:
            UsageError: something that is not allowed.
        """
        given = {name: field.value for name, field in self.fields.items()}
        model, inputs = given["model"], given["inputs"]
        values: dict[str, Any] = {
            **{name: given[name] for name in ("batch", "padding", "dtype", "backend", "backward", "force_failure")},
            "model": self._namespace.get(model, model) if _is_model(self._namespace.get(model)) else model,
            "inputs": None if inputs == MADE_UP else self._namespace[inputs],
            "target": given["target"] or None,
        }
        for name in ("max_memory", "dtypes", "deny"):
            values[name] = given[name].strip() or None
        for name, kind in (("alignment", int), ("atol", float), ("rtol", float)):
            values[name] = _number(name, given[name], kind)
        return QuickRun(**values)

    def run(self) -> None:
        """Run what the fields describe, and show it. An error is shown beside the button."""
        self.run_button.disabled = True
        self._show_status("Running …")
        try:
            chosen = self.read()
            self.session = chosen.run(on_step=lambda step: self._show_status(str(step)))
            self._on_session(self.session)
            self.look()
            self._show_status(f"The same in a script: {self._as_code(chosen)}")
        except Exception as error:  # of ours, or of the user's model
            self._show_status(f"✗ {error_text(error)}", bad=True)
        finally:
            self.run_button.disabled = False

    def _as_code(self, chosen: QuickRun) -> str:
        """The call, with the user's variable names in place of models and tensors."""
        code = str(chosen)
        for field in ("model", "inputs"):
            code = code.replace(f"{field}=…", f"{field}={self.fields[field].value}")
        return code

    def _show_status(self, text: str, *, bad: bool = False) -> None:
        """Text from models and errors: never markup."""
        kind = ' role="alert" style="color: var(--jp-error-color1, #c62828)"' if bad else ' role="status"'
        self.status.value = f"<span{kind}>{html.escape(plain(text.splitlines()[0] if text else ''))}</span>"

    def _show_panel(self, session: DebugSession) -> None:
        from inductor_debug_jupyter.jupyter.display import make_panel

        before = self._below.children
        self._below.children = [make_panel(session)]
        for panel in before:
            panel.close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        panels.shown(self)
        return super()._repr_mimebundle_(**kwargs)

    def close(self) -> None:
        """Close it with all its widgets, and let go of the session of the last run. Safe to call twice."""
        panels.gone(self)
        for panel in self._below.children:
            panel.close()
        close_all(self)
        self.session = None


def _fields() -> dict[str, Any]:
    """Every field, in the order of the form."""
    made: dict[str, Any] = {
        "model": ipywidgets.Dropdown(description="Model", options=list(BUILT_IN)),
        "inputs": ipywidgets.Dropdown(description="Inputs", options=[MADE_UP]),
        "batch": ipywidgets.BoundedIntText(description="Batch", value=8, min=1, max=1 << 20),
        "padding": ipywidgets.BoundedIntText(description="Pad sizes to", value=1, min=1, max=1 << 20),
        "dtype": ipywidgets.Dropdown(description="Dtype", options=DTYPES),
        "target": ipywidgets.Combobox(description="Target", options=profile_names(), placeholder="default"),
        "backend": ipywidgets.Combobox(description="Backend", options=adapter_names(), value="inductor"),
    }
    for name, (title, hint) in _TEXTS.items():
        made[name] = ipywidgets.Text(description=title, placeholder=hint)
    made["backward"] = ipywidgets.Checkbox(description="Backward too", indent=True)
    made["force_failure"] = ipywidgets.Checkbox(description="Force a failure", indent=True)
    for field in made.values():
        field.layout.width = "auto"
        field.style.description_width = "88px"
    return made


def _number(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    if not text.strip():
        return None
    try:
        return kind(text)
    except ValueError:
        allowed = "a whole number" if kind is int else "a number"
        raise OptionError(f"{name}={text!r}; allowed: {allowed}, or nothing") from None


def _is_model(value: Any) -> bool:
    """A module, or a function that was compiled."""
    return isinstance(value, torch.nn.Module) or (callable(value) and uncompiled(value) is not value)


def _is_input(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    values = value if isinstance(value, tuple | list) else [value]
    return bool(values) and any(isinstance(each, torch.Tensor) for each in values)
