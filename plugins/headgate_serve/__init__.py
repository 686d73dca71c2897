"""Published plans over HTTP: ``headgate serve``, and the answers that Airflow's plan API shares."""
