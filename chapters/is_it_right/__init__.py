"""Chapter 20, is it right?"""

NUMBER = "20"
