"""Airflow's side of Headgate: operators, links, the trigger form, the Plans page."""
