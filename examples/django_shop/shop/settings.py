"""Django's settings, and where the queue is."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SECRET_KEY", "only for this machine")
DEBUG = True
ROOT_URLCONF = "shop.web"
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", Path(__file__).parent / "orders.sqlite3"),
    }
}
POPMQ_ENDPOINT = os.environ.get("POPMQ_ENDPOINT", "127.0.0.1:8081")
