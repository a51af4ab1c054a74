# Two images from one tree: `windlass` runs the API, the workers, the migration and the command;
# `site` adds what the simulated site needs.

FROM python:3.11-slim-bookworm AS windlass
WORKDIR /opt/windlass

# First what seldom changes. setuptools installs the tree below, in the version that is locked.
COPY requirements/ requirements/
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements/dev.txt > /tmp/setuptools.txt \
 && pip install --no-cache-dir --require-hashes -r requirements/runtime.txt -r /tmp/setuptools.txt

COPY pyproject.toml README.md LICENSE worker.py settings.py systems.py logs.py offer.py collecting.py supervision.py ./
COPY activities/ activities/
COPY agent/ agent/
COPY api/ api/
COPY cli/ cli/
COPY clients/ clients/
COPY domain/ domain/
COPY protos/ protos/
COPY sim/ sim/
COPY store/ store/
COPY workflows/ workflows/
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .

# What GetVersionInformation says: docker build --build-arg COMMIT=$(git rev-parse HEAD) ...
ARG COMMIT=unknown
ARG DATE=unknown
RUN python -c "import importlib.metadata as m, json, sys; json.dump({'version': 'v' + m.version('windlass'), 'commit': sys.argv[1], 'date': sys.argv[2]}, open('api/build_info.json', 'w'))" "$COMMIT" "$DATE"

# Keys, copies of clusters and the site's memory are on volumes, which take their owner from these directories.
RUN useradd --system --uid 10001 windlass \
 && install -d -m 0700 -o windlass /var/lib/windlass/keys /var/lib/windlass/backups \
    /var/lib/windlass/site
USER windlass
ENV PYTHONUNBUFFERED=1
CMD ["python", "-m", "api"]

FROM windlass AS site
USER root
RUN pip install --no-cache-dir --require-hashes -r requirements/embedded.txt
USER windlass
CMD ["python", "-m", "sim"]
