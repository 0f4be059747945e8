"""Chapter 22, attention masks and passes of your own."""

NUMBER = "22"
