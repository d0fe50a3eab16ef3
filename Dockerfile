# Two images from one base: `train` (python -m train) and `api` (python -m api). They start on any
# machine; the GPU's driver comes from the host, its libraries with torch.
# Any glibc system with Python 3.11 to 3.14, its venv module and setpriv will do in its place, and a
# digest holds it in place: BASE=python:3.11-slim@sha256:… (in .env, for Compose: BASE_IMAGE).
ARG BASE=python:3.11-slim
FROM ${BASE} AS base
# default (the lock's: CUDA 13, driver 580 or newer), cpu (3 GB smaller), cu126 (older drivers).
ARG TORCH_BACKEND=default
WORKDIR /app
# What changes seldom comes first: a change of our code rebuilds seconds, not gigabytes.
COPY .ci/install .ci/
COPY requirements.lock ./
RUN --mount=type=cache,target=/root/.cache sh .ci/install lock
COPY pyproject.toml README.md LICENSE ./
COPY machine machine
COPY xtts xtts
COPY train train
COPY api api
COPY extras extras
RUN --mount=type=cache,target=/root/.cache sh .ci/install
COPY .ci/entrypoint .ci/
# PYTHONSAFEPATH: the code is /app's, though the work is done in /project (the user's own clone).
# HOME and the caches: the user of the program has no folder of its own here.
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    USER=sotaque \
    MPLCONFIGDIR=/tmp/matplotlib \
    NUMBA_CACHE_DIR=/tmp/numba
WORKDIR /project
# It begins as root to hand over root-owned mounts, and runs the program as uid 1000 or the owner of
# /project.
ENTRYPOINT ["sh", "/app/.ci/entrypoint"]

FROM base AS train
EXPOSE 6006
CMD ["python", "-m", "train"]

FROM base AS api
EXPOSE 8005
CMD ["python", "-m", "api"]
