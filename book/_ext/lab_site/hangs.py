"""The page of ranks that part ways: a card for each case of the recording ``hangs``."""

from sphinx.util.docutils import SphinxDirective


class HangLab(SphinxDirective):
    """``{lab-hangs}``: how many there are, how soon they were named, and the cards."""

    def run(self):
        from chapters.overlap.hangs.hangs_view import HangCards
        from chapters.overlap.hangs.runs import HangResult
        from compile_lab import recordings

        stored = recordings.load("hangs")
        results = [HangResult.from_json(each) for each in stored.result["cases"]]
        slowest = max(each.after_s for each in results)
        cured = sum(each.cured for each in results)
        lines = [
            f"{len(results)} programs; groups wait for {stored.result['patience_s']:g} s. Where the ranks part was "
            f"named at most {slowest:.2f} s after the first one failed. {cured} cures ended with the right result on "
            f"all ranks. R{str(stored.provenance).removeprefix('r')}.",
            "",
            "```{raw} html",
            f'<div class="lab-hangs">{HangCards(results)._repr_html_()}</div>',
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("lab-hangs", HangLab)
