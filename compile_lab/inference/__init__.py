"""What compiled code costs and gives when it answers requests: a service, its guards, a package without Python."""
