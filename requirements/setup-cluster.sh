#!/bin/sh
# What `make test-cluster` needs beyond .venv: packages of Spark by Maven into the user's cache, moto's server, and the two older
# Sparks for which Delta and Iceberg have releases. Each is fetched once; everything from PyPI is checked by its hash.
set -eu
cd "$(dirname "$0")/.."
PYTHON=.venv/bin/python
say() { printf '%s\n' "setup: $*" >&2; }

"$PYTHON" requirements/jars.py >/dev/null

TOOLS=.venv/cluster
STAMP=$TOOLS/.done-$(cksum <requirements/cluster.lock | tr ' ' '-')
if [ ! -e "$STAMP" ]; then
    say "installing the packages of requirements/cluster.lock"
    rm -rf "$TOOLS"
    "$PYTHON" -m venv "$TOOLS"
    "$TOOLS/bin/python" -m pip install -q --no-input --disable-pip-version-check --require-hashes -r requirements/cluster.lock
    : >"$STAMP"
fi

for lock in requirements/spark-*.lock; do
    version=${lock#requirements/spark-}
    version=${version%.lock}
    place=.venv/sparks/$version
    if [ ! -e "$place/.done" ]; then
        say "installing Spark $version (a minute)"
        rm -rf "$place"
        "$PYTHON" -m pip install -q --no-input --disable-pip-version-check --no-deps --require-hashes \
            --target "$place" -r "$lock"
        : >"$place/.done"
    fi
done
