# Spark with the jobs of highwater-spark: one image for the master, workers, history server and jobs.
#
#     sh tools/setup/spark_jars.sh
#     docker build -t highwater-spark -f deploy/spark.Dockerfile .
#
# Spark is what PySpark's own distribution brings, in the version of uv.lock. The jars of the Kafka
# connector and of the table formats come from .cache/spark-jars, where the script puts them: it needs
# Maven, the build does not. BASE and the other arguments are those of deploy/Dockerfile; Java is the
# default one of the base's distribution, 17 or newer.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL=https://pypi.org/simple
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG PIP_CERT=/etc/ssl/certs/ca-certificates.crt
ARG PIP_DEFAULT_TIMEOUT=60
ARG UV_VERSION=0.13.9
# Give uv pip's settings, and make it search all indexes as pip does.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    UV_DEFAULT_INDEX=${PIP_INDEX_URL} UV_INDEX=${PIP_EXTRA_INDEX_URL} \
    UV_INSECURE_HOST=${PIP_TRUSTED_HOST} UV_INDEX_STRATEGY=unsafe-best-match \
    UV_HTTP_TIMEOUT=${PIP_DEFAULT_TIMEOUT} SSL_CERT_FILE=${PIP_CERT} \
    UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/highwater
WORKDIR /src
RUN python3 -m venv /tools && /tools/bin/pip install --quiet "uv==${UV_VERSION}"

# Spark changes less often than the sources, and takes minutes.
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN /tools/bin/uv export --quiet --frozen --no-dev --no-emit-project --extra spark --output-file locked.txt \
    && /tools/bin/uv venv --quiet --python "$(command -v python3)" "$VIRTUAL_ENV" \
    && /tools/bin/uv pip install --require-hashes --requirement locked.txt

# Beside Spark's own jars, so that every process has them without a copy for each job.
COPY .cache/spark-jars jars
RUN cp jars/*.jar "$("$VIRTUAL_ENV/bin/python" -c 'import pyspark; print(pyspark.__path__[0])')/jars/"

COPY protos protos
COPY services services
COPY spark spark
RUN /tools/bin/uv pip install --quiet --no-deps .

FROM ${BASE}
# Small bases lack the directory of manual pages, without which Java's package cannot be configured.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin highwater \
    && install --directory --owner highwater --group highwater /lake /events
COPY data/apache_access.log /sample/apache_access.log
COPY --from=build /opt/highwater /opt/highwater
RUN ln -s "$(/opt/highwater/bin/python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark
COPY deploy/spark /opt/highwater/spark
ENV PATH=/opt/highwater/bin:$PATH PYTHONUNBUFFERED=1 JAVA_HOME=/usr/lib/jvm/default-java \
    SPARK_HOME=/opt/spark SPARK_CONF_DIR=/opt/highwater/spark/conf SPARK_WORKER_DIR=/tmp/work \
    PYSPARK_PYTHON=/opt/highwater/bin/python3 MPLCONFIGDIR=/tmp/matplotlib
USER highwater
WORKDIR /lake
STOPSIGNAL SIGTERM
ENTRYPOINT ["python3", "/opt/highwater/spark/job.py"]
CMD ["--help"]
