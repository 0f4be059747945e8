"""What is measured for this room: one module a recording, named after its JSON file."""
