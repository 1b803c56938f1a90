"""What people read of a cluster, made of the admin service's answers: the command line and the
console share it. Nothing here asks anybody."""
