"""What is measured on real hardware: one module a recording, named after its JSON file; subjects are the models."""
