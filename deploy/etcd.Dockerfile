# etcd from the distribution's package, on the base image of the services.
#
#     docker build -t highwater-etcd -f deploy/etcd.Dockerfile deploy
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        etcd-server etcd-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10002 --user-group --no-create-home --shell /usr/sbin/nologin etcd-member \
    && install --directory --mode 700 --owner etcd-member --group etcd-member /data
USER etcd-member
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
    CMD ["etcdctl", "--endpoints=127.0.0.1:2379", "endpoint", "health"]
ENTRYPOINT ["etcd"]
