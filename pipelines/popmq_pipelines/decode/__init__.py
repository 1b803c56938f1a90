"""Raw store files are decoded by Spark."""
