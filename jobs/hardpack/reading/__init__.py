"""A topic read as Kafka's consumers read one: by offset, by time, in order, without Spark."""
