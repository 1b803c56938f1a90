# The audit: export a broker's files, reconcile them with Spark; also a Spark master and its workers.
# It needs Java, the services do not.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/popmq
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/requirements deploy/requirements
# Also what builds the project is pinned, and the build fetches nothing.
RUN pip install --no-deps --require-hashes -r deploy/requirements/build.txt \
    && pip --python /opt/popmq/bin/python install --no-deps --require-hashes -r deploy/requirements/pipelines.txt
COPY pyproject.toml README.md build_compiled.py ./
COPY proto/gen proto/gen
COPY services services
COPY sdk sdk
COPY pipelines pipelines
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/popmq/bin/python install --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
# The brokers' user: their files are read as what they are. Spark asks for the user's name.
RUN useradd --uid 10001 --no-create-home popmq && mkdir /audit && chown popmq /audit
COPY --from=build /opt/popmq /opt/popmq
ENV PATH=/opt/popmq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 SPARK_LOCAL_DIRS=/audit/spark
USER popmq
WORKDIR /audit
ENTRYPOINT ["popmq-pipelines", "audit"]
