"""A Django project: a view sends when its transaction commits, a handler uses the ORM.

python manage.py migrate --run-syncdb
python manage.py runserver
popmq run shop.handlers
curl -X POST localhost:8000/orders/7
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
