"""What spark-submit is given: a file for each verb that runs on a cluster."""
