"""Homes of earlier formats, brought to the present one (`headrace migrate`)."""
