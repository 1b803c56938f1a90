"""The environment of whoever runs the tests has no say in them."""

import os

from popmq_common import logs

for name in [name for name in os.environ if name.startswith("POPMQ_")]:
    del os.environ[name]

logs.configure("error")
