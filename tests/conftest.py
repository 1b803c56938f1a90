"""The environment of whoever runs the tests has no say in them."""

import os

from hypothesis import settings

from popmq_common.process import logs

for name in [name for name in os.environ if name.startswith("POPMQ_")]:
    del os.environ[name]

os.environ["POPMQ_CONFIG_DIR"] = os.path.join(os.devnull, "nobody")  # neither read nor written

logs.configure("error")

# The fast suite is the same at every run; `make hunt` looks further, with fresh seeds.
settings.register_profile(
    "fast", derandomize=True, max_examples=60, stateful_step_count=40, deadline=None
)
settings.register_profile(
    "hunt", max_examples=1_500, stateful_step_count=80, deadline=None, print_blob=True
)
settings.load_profile("fast")
