"""The environment of whoever runs the tests has no say in them."""

import os

from hypothesis import settings

from popmq_common.process import logs

for name in [name for name in os.environ if name.startswith("POPMQ_")]:
    del os.environ[name]

os.environ["POPMQ_CONFIG_DIR"] = os.path.join(os.devnull, "nobody")  # neither read nor written

logs.configure("error")

# The same histories at every run, fewer while you work than for a change that lands; `make hunt`
# looks further, with fresh seeds.
for profile, examples in (("fast", 20), ("thorough", 60)):
    settings.register_profile(
        profile, derandomize=True, max_examples=examples, stateful_step_count=40, deadline=None
    )
settings.register_profile(
    "hunt", max_examples=1_500, stateful_step_count=80, deadline=None, print_blob=True
)
settings.load_profile("fast")
