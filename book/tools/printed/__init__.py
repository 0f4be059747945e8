"""The book as one PDF and one EPUB, made from the built site: what ``book/tools/print_book.py`` is made of.

The site's pages become articles (`articles`): what only a script can use is taken out, folds are opened, answers and
solutions move to the end. Chromium draws the plots and prints (`browser`). `pdf` and `epub` bind the articles.
"""
