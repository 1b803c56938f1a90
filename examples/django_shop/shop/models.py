from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, primary_key=True)
    billed = models.BooleanField(default=False)
