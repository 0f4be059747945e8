"""The page of graph breaks: those that people report most, then a card for each entry of ``break_atlas``."""

from sphinx.util.docutils import SphinxDirective

MOST = 20


def entries():
    """The recording, and its entries as results."""
    from compile_lab import recordings
    from compile_lab.dynamo.atlas.run import AtlasResult

    stored = recordings.load("break_atlas")
    return stored, [AtlasResult.from_json(each) for each in stored.result["entries"]]


class ReportedBreaks(SphinxDirective):
    """``{lab-reported-breaks}``: how they were counted, and a card for each of those that people report most."""

    def run(self):
        from compile_lab.dynamo.atlas.atlas_view import reported_card, reports

        stored, results = entries()
        counted, by_name = reports(), {each.name: each for each in results}
        rows = counted["kinds"][:MOST]
        threads = {path for row in rows for path in row["threads"]}
        repositories = {path.rsplit("/", 2)[0] for path in threads}
        left_out = "; ".join(f"{kind} ({len(paths)} threads)" for kind, paths in counted["left_out"].items())
        lines = [
            f"We found {len(threads)} threads in {len(repositories)} repositories on {counted['date']}.",
            "",
            "```{raw} html",
            *(reported_card(row, by_name[row["entry"]], opened=row is rows[0]) for row in rows),
            f'<details class="lab-reported"><summary>How the threads were counted</summary><p>{counted["method"]}</p>'
            f"<p>Left out, since torch {stored.provenance.torch.partition('+')[0]} traces them by default: {left_out}. "
            "All queries and threads are in <code>compile_lab/dynamo/atlas/reports.json</code>.</p></details>",
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(lines))


class BreakAtlas(SphinxDirective):
    """``{lab-break-atlas}``: how many there are, controls to search and filter them, and the cards, theme by theme."""

    def run(self):
        from compile_lab.dynamo.atlas.atlas_view import BreakCards

        stored, results = entries()
        kinds = {each.id for each in results if each.holds}
        cured = sum(bool(each.cured) for each in results)
        refused = sum(each.eager_raises for each in results)
        uncured = len(results) - cured - refused
        themes = list(dict.fromkeys(each.theme for each in results))
        choices = " ".join(each.replace(" ", "_") for each in ["cured", "no cure", "eager refuses it too", *themes])
        lines = [
            f"{len(results)} functions of {len(kinds)} kinds, of the {stored.result['registry']} that torch lists; "
            f"{cured} have a cure, {uncured} have none, and {refused} fail without a compiler, too. "
            f"R{str(stored.provenance).removeprefix('r')}.",
            "",
            "```{raw} html",
            '<div class="lab-search-cards" data-cards="details.lab-break" data-ask="Search the atlas" '
            f'data-like="item, print, GB0170 …" data-kinds="{choices}"></div>',
        ]
        for theme in themes:
            cards = BreakCards([each for each in results if each.theme == theme])
            lines += [f"<section><h3>{theme.capitalize()}</h3>", cards._repr_html_(), "</section>"]
        lines.append("```")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("lab-reported-breaks", ReportedBreaks)
    app.add_directive("lab-break-atlas", BreakAtlas)
