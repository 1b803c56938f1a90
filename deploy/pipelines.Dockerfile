# The audit: export a broker's files, reconcile them with Spark.
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md ./
COPY proto/gen proto/gen
COPY services services
COPY sdk sdk
COPY pipelines pipelines
RUN python -m venv /opt/popmq && /opt/popmq/bin/pip install --no-cache-dir '.[pipelines]'
ENV PATH=/opt/popmq/bin:$PATH
ENTRYPOINT ["python", "-m", "popmq_pipelines"]
CMD ["--help"]
