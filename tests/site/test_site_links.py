"""Every link inside the site arrives: pages, places on them, files. (`make release` asks the same.)"""

import harness
import release


def test_every_link_inside_the_site_arrives(built):
    release.links(harness.ROOT)
