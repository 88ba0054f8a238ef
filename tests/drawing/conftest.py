"""The hand-made records of the views."""

from ..views.conftest import make_record

__all__ = ["make_record"]
