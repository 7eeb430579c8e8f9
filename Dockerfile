# holdfast with its review page and the pre-trained networks, on a processor:
#
#     docker build -t holdfast .
#     docker run --rm -v "$PWD:/data" holdfast fit people.csv --label income --out run/
#     docker run --rm -it -p 8000:8000 -v "$PWD:/data" holdfast review run/ --host 0.0.0.0 --port 8000
#
# For CUDA: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126 -t holdfast .
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# OpenMP, which scikit-learn and numba load.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" torch
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/holdfast-*.whl)[review,text,images,excel]" && rm -r /wheels
RUN useradd --create-home --uid 1000 holdfast
USER holdfast
WORKDIR /data
ENTRYPOINT ["holdfast"]
CMD ["--help"]
