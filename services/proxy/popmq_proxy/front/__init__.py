"""How RPCs reach the handlers: one module per transport."""
