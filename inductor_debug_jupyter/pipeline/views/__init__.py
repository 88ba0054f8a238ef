"""Records in, plain dicts and strings out, which text, HTML, reports and panels share. No torch, no Jupyter.

- ``labels``: what nodes, ops and lines are called. ``places``: source lines, and which findings are on a node or line.
- ``text``: a session as text; ``short_text``: in a few lines; ``verdict_sentence``: a comparison in one.
- One module a tab, with the tab's dicts and its text: ``panel`` (header, findings, sources), ``overview``, ``guards``
  with ``recompiles`` and ``recompile_advice``, ``code``, ``memory``, ``placement``, ``transfers``, ``diff`` with
  ``localization`` and ``crash``, ``numerics`` and ``tokens``, ``timing``, ``comparison``.
  ``panel_parts`` is the state of a panel.
  ``view_types`` has the types that several of them share.
- ``rule_page``: the page of a rule.
- ``bisect``, ``provenance``: the text of these two.
"""
