"""Chapter 21, where to put torch.compile."""

NUMBER = "21"
