"""The page of known faults: programs that some torch compiles wrong, as ``book/tools/known_faults.py`` ran them."""

from sphinx.util.docutils import SphinxDirective


class Counts(SphinxDirective):
    """``{lab-fault-counts}``: how many of each kind in each torch, and what ``cards.js`` makes a search of."""

    def run(self):
        from chapters.is_it_right.faults.kept import FAULTS, KEPT, board
        from chapters.is_it_right.faults_view import counted

        self.env.note_dependency(str(KEPT))
        search = (
            '<div class="lab-search-cards" data-cards="details.lab-fault" data-ask="Search the programs" '
            'data-like="argmin, view, 193061 …" data-kinds="wrong raises right"></div>'
        )
        lines = [f"{len(FAULTS)} programs:", "", *_raw(counted(board())._repr_html_()), *_raw(search)]
        return self.parse_text_to_nodes("\n".join(lines))


class Faults(SphinxDirective):
    """``{lab-faults}``: the cards, a section for each stage."""

    def run(self):
        from chapters.is_it_right.faults.catalogue import STAGES
        from chapters.is_it_right.faults.kept import board
        from chapters.is_it_right.faults_view import by_stage

        lines, cards = [], by_stage(board())
        for stage in STAGES:
            lines += [f"## {stage[0].upper()}{stage[1:]}", ""]
            lines += _raw("\n".join(card._repr_html_() for card in cards.get(stage, [])))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _raw(text: str) -> list[str]:
    return ["```{raw} html", text, "```", ""]


def setup(app):
    app.add_directive("lab-fault-counts", Counts)
    app.add_directive("lab-faults", Faults)
