"""The page of graph breaks: a card for each entry of the recording ``break_atlas``, theme by theme."""

from sphinx.util.docutils import SphinxDirective


class BreakAtlas(SphinxDirective):
    """``{lab-break-atlas}``: how many there are, a field to search them, and the cards, theme by theme."""

    def run(self):
        from compile_lab import recordings
        from compile_lab.dynamo.atlas.atlas_view import BreakCards
        from compile_lab.dynamo.atlas.run import from_record

        stored = recordings.load("break_atlas")
        results = [from_record(each) for each in stored.result["entries"]]
        kinds = {each.id for each in results if each.holds}
        cured = sum(bool(each.cured) for each in results)
        refused = sum(each.eager_raises for each in results)
        uncured = len(results) - cured - refused
        lines = [
            f"{len(results)} functions of {len(kinds)} kinds, of the {stored.result['registry']} that torch lists; "
            f"{cured} have a cure, {uncured} have none, and {refused} fail without a compiler, too. "
            f"R{str(stored.provenance).removeprefix('r')}.",
            "",
            "```{raw} html",
            '<div class="lab-search-cards" data-cards="details.lab-break" data-ask="Search the atlas" '
            'data-like="item, print, GB0170 …"></div>',
        ]
        for theme in dict.fromkeys(each.theme for each in results):
            cards = BreakCards([each for each in results if each.theme == theme])
            lines += [f"<section><h2>{theme.capitalize()}</h2>", cards._repr_html_(), "</section>"]
        lines.append("```")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("lab-break-atlas", BreakAtlas)
