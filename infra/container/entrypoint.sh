#!/usr/bin/env bash
# Spark on Kubernetes starts its executors' pods with the argument `executor`, as for Spark's own image. Any other
# arguments are a command, which is run.
set -euo pipefail

if [ "${1:-}" != executor ]; then
    exec tini -- "$@"
fi
spark_home=$(python -c "import os, pyspark; print(os.path.dirname(pyspark.__file__))")
options=()
while IFS= read -r option; do
    [ -n "$option" ] && options+=("$option")
done < <(env | sort -t_ -k4 -n | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
# an executor fetches jars into its current folder, and only root may write to the image's
cd "$(mktemp -d)"
exec tini -s -- java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$spark_home/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
