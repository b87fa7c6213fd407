# Akin on processors: docker build --file docker/cpu.Dockerfile --tag akin:0.2.0-cpu .
FROM python:3.11.15-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_ROOT_USER_ACTION=ignore \
    UV_COMPILE_BYTECODE=1 \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never \
    VIRTUAL_ENV=/opt/akin
WORKDIR /build

COPY docker/build.lock docker/
RUN python3 -m pip install --target=/opt/uv --require-hashes --requirement=docker/build.lock \
 && python3 -m venv --without-pip /opt/akin

# What serving needs, everything with its hash. It is a layer that stays while only the code changes. PyTorch's
# own index has the builds of torch for processors: anywhere else it brings gigabytes for GPUs. Whatever else that
# index has, versions and hashes are those of the lock.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY docker/cpu.lock docker/
RUN /opt/uv/bin/uv pip install --no-build --no-deps --require-hashes --requirement=docker/cpu.lock \
    --index="$TORCH_INDEX" --index-strategy=unsafe-best-match

COPY pyproject.toml LICENSE README.md ./
COPY models models
COPY indexer indexer
COPY service service
COPY evaluation evaluation
COPY akin akin
RUN /opt/uv/bin/uv pip install --no-index --no-deps --no-build-isolation .

# Machine code for any x86-64 processor with AVX2, whatever else this one has; `generic` is for any at all.
ARG CPU=x86-64-v3
ENV NUMBA_CACHE_DIR=/var/cache/akin/numba \
    NUMBA_CPU_FEATURES="" \
    NUMBA_CPU_NAME=$CPU
WORKDIR /opt/akin
RUN bin/python3 -m akin.compiling


FROM python:3.11.15-slim-bookworm

# Python's own library comes without byte code, and a process could not keep it. Where its tests come along, some
# of them are no Python.
RUN groupadd --gid=10001 akin \
 && useradd --uid=10001 --gid=10001 --no-create-home --home-dir=/var/lib/akin --shell=/usr/sbin/nologin akin \
 && install --directory --owner=10001 --group=10001 --mode=0750 /var/lib/akin \
 && python3 -m compileall -qq -x "/tests?/" "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/akin /opt/akin
COPY --from=build --chown=10001:10001 /var/cache/akin /var/cache/akin

ARG CPU=x86-64-v3
ENV AKIN_DATA=/var/lib/akin \
    AKIN_HOST=0.0.0.0 \
    AKIN_PORT=8000 \
    HF_HOME=/var/cache/akin/huggingface \
    NUMBA_CACHE_DIR=/var/cache/akin/numba \
    NUMBA_CPU_FEATURES="" \
    NUMBA_CPU_NAME=$CPU \
    PATH=/opt/akin/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/var/cache/akin
# Of the build: docs/how-to/deploy.md.
ARG CREATED=""
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="Akin" \
      org.opencontainers.image.description="Find scientific papers akin to one you give, in the respect you choose, and see which sentences match." \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11.15-slim-bookworm"

USER 10001:10001
WORKDIR /var/lib/akin
VOLUME ["/var/lib/akin", "/var/cache/akin"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=120s --retries=3 CMD ["python3", "-c", "import http.client, os; ask = http.client.HTTPConnection('127.0.0.1', int(os.environ['AKIN_PORT']), timeout=5); ask.request('GET', '/readyz'); raise SystemExit(ask.getresponse().status != 200)"]
ENTRYPOINT ["akin"]
CMD ["serve", "--data", "/var/lib/akin"]
