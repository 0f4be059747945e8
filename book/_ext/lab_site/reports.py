"""The page of one's own model: six reports as files of their own, and the survey of fifty, from the recording."""

from pathlib import Path

from sphinx.util.docutils import SphinxDirective

FOLDER = "reports"


def stored():
    """The recording, and the reports that are kept whole by their model's name."""
    from compile_lab import recordings
    from compile_lab.report.cards import report_of

    kept = recordings.load("architectures")
    return kept, {name: report_of(data) for name, data in kept.result["reports"].items()}


class Reports(SphinxDirective):
    """``{lab-reports}``: a card for each report that is kept, what became of all, and when."""

    def run(self):
        from compile_lab.report import survey_view

        kept, reports = stored()
        rows = kept.result["rows"]
        folder = (
            f"{self.env.app.builder.get_relative_uri(self.env.docname, 'index').removesuffix('index.html')}{FOLDER}/"
        )
        lines = [
            "```{raw} html",
            f'<ul class="lab-reports">{survey_view.gallery(reports, folder)}</ul>',
            "```",
            "",
            "## Fifty of them",
            "",
            f"{survey_view.summary(rows)} R{str(kept.provenance).removeprefix('r')}.",
            "",
            "```{raw} html",
            survey_view.table(rows)._repr_html_(),
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class Questions(SphinxDirective):
    """``{lab-questions}``: what a report asks of each model by name."""

    def run(self):
        from compile_lab.report.questions import QUESTIONS

        return self.parse_text_to_nodes("\n".join(f"- {ask.__doc__}" for ask in QUESTIONS.values()))


def write(app, error):
    """Each report as one file, which needs nothing else of the site."""
    if error or app.builder.format != "html":
        return
    from compile_lab.report.model_view import page
    from compile_lab.report.survey_view import file_of

    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name, report in stored()[1].items():
        (folder / file_of(name)).write_text(page(report), "utf-8")


def setup(app):
    app.add_directive("lab-reports", Reports)
    app.add_directive("lab-questions", Questions)
    app.connect("build-finished", write)
