# An image with the library, its programs and its packages for Python in /opt/tutti.
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends libpmix-dev libhwloc-dev libibverbs-dev librdmacm-dev
COPY . /src
RUN /src/scripts/install /opt/tutti

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libhwloc15 libibverbs1 librdmacm1 \
    ibverbs-providers openssh-client python3 python3-numpy \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/tutti /opt/tutti
ENV PATH=/opt/tutti/bin:$PATH LD_LIBRARY_PATH=/opt/tutti/lib PYTHONPATH=/opt/tutti/lib/tutti/python
