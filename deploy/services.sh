#!/bin/sh
# Starts and stops the Redis and Postgres that the tests and the demo need: `deploy/services.sh help` lists the commands.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
for python in python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
  if command -v "$python" >/dev/null 2>&1 && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
    exec "$python" "$here/services.py" "$@"
  fi
done
echo "services: Python 3.9 or newer is needed and was not found" >&2
exit 69
