"""Chapter 18, where to put torch.compile."""

NUMBER = "18"
