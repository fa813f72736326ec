"""Answers of joins and filters, made from committed rows when somebody reads them."""
