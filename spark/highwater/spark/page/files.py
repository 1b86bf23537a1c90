"""Where a job leaves what it shows: a page of HTML, a picture, both or neither."""

from dataclasses import dataclass
from pathlib import Path

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.page import view as views
from highwater.spark.page.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFiles:
    """The files of `--html` and `--png`; None where the option is not given."""

    html: Path | None = None
    png: Path | None = None

    @property
    def are_wanted(self) -> bool:
        """Whether there is anything to draw."""
        return self.html is not None or self.png is not None

    def prepare(self) -> None:
        """Makes the directories, before hours of work are done. Raises UnwritableDirectoryError."""
        for path in (self.html, self.png):
            if path is None:
                continue
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UnwritableDirectoryError(
                    str(path.parent), error.strerror or str(error)
                ) from error

    def write(self, view: View) -> None:
        """Writes what is wanted; each file is replaced in one step. Raises OSError."""
        if self.html is not None:
            views.write_page(view, self.html)
        if self.png is not None:
            views.draw_picture(view, self.png)
